"""What a model can be pretrained on: one file an objective, which makes its examples in the graph.

base.py                     what an objective is: rows or marks, head, loss, metrics, weight
table.py                    all of them by name
dataset.py                  documents to batches of several
given_rows.py               rows of a file instead of documents' own
schedule.py                 which are trained at which step: continual, multi-task, sequential

masked_lm.py                which tokens were hidden? (BERT, ERNIE 1.0)
next_sentence.py            does B follow A? (BERT)
sentence_order.py           are two chunks in order, or swapped? (ALBERT)
sentence_reordering.py      in which order do the segments of a paragraph stand? (ERNIE 2.0)
sentence_distance.py        neighbours, of one document, or strangers? (ERNIE 2.0)
discourse_relation.py       which connective stood between two sentences? (ERNIE 2.0, Discovery)
ir_relevance.py             does a title answer a query? (ERNIE 2.0)
capitalization.py           did a word begin with a capital? (ERNIE 2.0)
token_document_relation.py  does a token come again elsewhere in its document? (ERNIE 2.0)
"""
