"""One reader a kind. Each module has ``open_file(request) -> Source``; heavy decoders are imported inside it."""
