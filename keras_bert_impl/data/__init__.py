"""Ids to batches, as a TensorFlow graph. Knows no model.

sources.py         files of running text and tables of examples, checked
sentence_pairs.py  documents to A/B pairs with the next-sentence label
packing.py         `[CLS] a [SEP] b [SEP]`, and the rules that shorten
masking.py         DynamicMasker: which tokens to predict, and what stands in their place
pretraining.py     all of these in one dataset
randomness.py      draws that are a function of a seed alone
batches.py         arrays to batches, and checks of their ids
"""
