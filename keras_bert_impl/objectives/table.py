"""All objectives by name, as recipes' flags know them. A new one gets a file and a line here."""

from keras_bert_impl.objectives.base import Objective
from keras_bert_impl.objectives.capitalization import Capitalization
from keras_bert_impl.objectives.discourse_relation import DiscourseRelation
from keras_bert_impl.objectives.ir_relevance import IRRelevance
from keras_bert_impl.objectives.masked_lm import MaskedLM
from keras_bert_impl.objectives.next_sentence import NextSentence
from keras_bert_impl.objectives.sentence_distance import SentenceDistance
from keras_bert_impl.objectives.sentence_order import SentenceOrder
from keras_bert_impl.objectives.sentence_reordering import SentenceReordering
from keras_bert_impl.objectives.token_document_relation import TokenDocumentRelation

OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective
    for objective in (
        MaskedLM,
        NextSentence,
        SentenceOrder,
        SentenceReordering,
        SentenceDistance,
        DiscourseRelation,
        IRRelevance,
        Capitalization,
        TokenDocumentRelation,
    )
}


def default_objectives() -> list[Objective]:
    """The paper's: masked LM and next sentence.

    Example:

    >>> [objective.name for objective in default_objectives()]
    ['masked_lm', 'next_sentence']
    """
    return [MaskedLM(), NextSentence()]
