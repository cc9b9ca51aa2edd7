"""The parts of the encoder, in `keras.ops` only: any backend runs them."""
