"""Ids to batches, as a TensorFlow graph. Knows no model.

sources.py         files of running text and tables of examples, checked
document_walk.py   a walk through all documents of a window, which makers of rows share
sentence_pairs.py  documents to A/B pairs with the next-sentence label
packing.py         `[CLS] a [SEP] b [SEP]`, and the rules that shorten
row_packing.py     several examples in one row
batching.py        batches of rows of like length
masking.py         DynamicMasker: which tokens to predict, and what stands in their place
masking_units.py   what goes together when targets are chosen: words, n-grams, marked units
word_units.py      phrases and entities of marked text
phrase_table.py    the same from a list
marked_pieces.py   marks that travel with a piece in one number
pretraining.py     all of these in one dataset
randomness.py      draws that are a function of a seed alone
batches.py         arrays to batches, and checks of their ids
"""
