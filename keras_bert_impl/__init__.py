"""The whole life of a BERT in Keras 3. Every public name stands here, once."""
