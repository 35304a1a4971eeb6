"""The networks, and the public model around the encoder."""
