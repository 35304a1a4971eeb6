"""The encoder outside training: streams, tables on disk, ONNX, a service."""
