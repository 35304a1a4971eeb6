"""The 39 training emitters of the paper's table, and the radio that only evaluation hears (paper, Appendix E.1)."""

from __future__ import annotations

from dataclasses import dataclass

from planformer.data.fingerprints import Fingerprint, draw_fingerprint

ORACLE_SERIALS = (
    "3123D7B", "3123D7D", "3123D7E", "3123D52", "3123D54", "3123D58", "3123D64", "3123D65",
    "3123D70", "3123D76", "3123D78", "3123D79", "3123D80", "3123D89", "3123EFE", "3124E4A",
)  # fmt: skip
POWDER_STATIONS = ("bes", "browning", "honors", "meb")
COMMODITY_FAMILIES = ("B210", "HackRF", "UBX160", "PlutoSDR")


@dataclass(frozen=True)
class Emitter:
    """One transmitter: its label, the product it belongs to, the collection it was recorded for."""

    name: str
    family: str
    collection: str

    @property
    def setting(self) -> str:
        """The collection whose waveforms, carrier and channels its recordings have."""
        return "powder" if self.collection == "stations" else self.collection

    @property
    def fingerprint(self) -> Fingerprint:
        """The fixed hardware of this emitter."""
        return draw_fingerprint(self.name, self.family)


def oracle_name(serial: str) -> str:
    """Label of an ORACLE radio, real or simulated."""
    return f"oracle-{serial}"


def powder_name(station: str) -> str:
    """Label of a POWDER base station, real or simulated."""
    return f"powder-{station}"


EMITTERS: dict[str, tuple[Emitter, ...]] = {
    "oracle": tuple(Emitter(oracle_name(serial), "X310", "oracle") for serial in ORACLE_SERIALS),
    "powder": tuple(Emitter(powder_name(name), "X310-rooftop", "powder") for name in POWDER_STATIONS),
    "modulation": (Emitter("modulation-x310", "X310", "modulation"),),
    "commodity": tuple(
        Emitter(f"commodity-{family.lower()}-{k}", family, "commodity")
        for family in COMMODITY_FAMILIES
        for k in (1, 2, 3)
    ),
    "fm": tuple(Emitter(f"fm-{k}", "FM-transmitter", "fm") for k in range(1, 7)),
}

MAX_STATIONS = 999


def made_up_stations(count: int) -> tuple[Emitter, ...]:
    """So many base stations of POWDER's product that do not exist, a collection of their own.

    >>> [station.name for station in made_up_stations(2)]
    ['station-001', 'station-002']
    """
    return tuple(Emitter(f"station-{k:03d}", "X310-rooftop", "stations") for k in range(1, count + 1))


HELD_OUT_RADIO = Emitter("modulation-x310-held-out", "X310", "modulation")
