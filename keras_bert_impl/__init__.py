"""The whole life of a BERT in Keras 3. Every public name stands here, once."""

# Strings to ids
from keras_bert_impl.text.tokenizer import BertTokenizer as BertTokenizer
from keras_bert_impl.text.tokenizer import TokensWithOffsets as TokensWithOffsets
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS as SPECIAL_TOKENS
from keras_bert_impl.text.vocabulary import check_vocabulary as check_vocabulary
from keras_bert_impl.text.vocabulary import read_vocabulary as read_vocabulary
from keras_bert_impl.text.vocabulary import save_vocabulary as save_vocabulary
from keras_bert_impl.text.vocabulary import train_vocabulary as train_vocabulary

# isort: split
# Ids to batches
from keras_bert_impl.data.answer_spans import Answer as Answer
from keras_bert_impl.data.bidirectional_pretraining import (
    bidirectional_pretraining_dataset as bidirectional_pretraining_dataset,
)
from keras_bert_impl.data.causal_pretraining import (
    causal_pretraining_dataset as causal_pretraining_dataset,
)
from keras_bert_impl.data.characters import sentence_characters as sentence_characters
from keras_bert_impl.data.characters import word_characters as word_characters
from keras_bert_impl.data.conll import TaggedSentences as TaggedSentences
from keras_bert_impl.data.conll import read_conll as read_conll
from keras_bert_impl.data.conll import write_conll as write_conll
from keras_bert_impl.data.entities import Entity as Entity
from keras_bert_impl.data.entities import entities_of as entities_of
from keras_bert_impl.data.entities import split_tag as split_tag
from keras_bert_impl.data.glue import GlueExamples as GlueExamples
from keras_bert_impl.data.glue import glue_splits as glue_splits
from keras_bert_impl.data.glue import read_glue as read_glue
from keras_bert_impl.data.glue import write_glue_submission as write_glue_submission
from keras_bert_impl.data.glue_tasks import GLUE_TASKS as GLUE_TASKS
from keras_bert_impl.data.glue_tasks import GlueTask as GlueTask
from keras_bert_impl.data.glue_tasks import glue_task as glue_task
from keras_bert_impl.data.masking import UNITS as UNITS
from keras_bert_impl.data.masking import DynamicMasker as DynamicMasker
from keras_bert_impl.data.next_tokens import next_tokens as next_tokens
from keras_bert_impl.data.packing import pack as pack
from keras_bert_impl.data.packing import truncate_pair as truncate_pair
from keras_bert_impl.data.phrase_table import PhraseTable as PhraseTable
from keras_bert_impl.data.phrase_table import read_phrases as read_phrases
from keras_bert_impl.data.prepared_pretraining import prepare_pretraining as prepare_pretraining
from keras_bert_impl.data.prepared_pretraining import (
    prepared_pretraining_dataset as prepared_pretraining_dataset,
)
from keras_bert_impl.data.pretraining import pretraining_dataset as pretraining_dataset
from keras_bert_impl.data.row_files import RowFiles as RowFiles
from keras_bert_impl.data.row_packing import pack_rows as pack_rows
from keras_bert_impl.data.sentence_pairs import pairs_from_documents as pairs_from_documents
from keras_bert_impl.data.sentence_pairs import texts_from_documents as texts_from_documents
from keras_bert_impl.data.sources import check_labels as check_labels
from keras_bert_impl.data.sources import check_numbers as check_numbers
from keras_bert_impl.data.sources import check_text_file as check_text_file
from keras_bert_impl.data.sources import file_fingerprint as file_fingerprint
from keras_bert_impl.data.sources import read_documents as read_documents
from keras_bert_impl.data.sources import read_table as read_table
from keras_bert_impl.data.squad import SquadQuestion as SquadQuestion
from keras_bert_impl.data.squad import SquadTraining as SquadTraining
from keras_bert_impl.data.squad import read_squad as read_squad
from keras_bert_impl.data.squad import squad_inputs as squad_inputs
from keras_bert_impl.data.squad import squad_training as squad_training
from keras_bert_impl.data.squad import write_squad_answers as write_squad_answers
from keras_bert_impl.data.streams import dataset_of_streams as dataset_of_streams
from keras_bert_impl.data.swag import SwagExamples as SwagExamples
from keras_bert_impl.data.swag import read_swag as read_swag
from keras_bert_impl.data.word_alignment import split_words as split_words
from keras_bert_impl.data.word_units import pieces_of_marked_text as pieces_of_marked_text
from keras_bert_impl.data.word_units import segment_lines as segment_lines
from keras_bert_impl.data.word_units import strip_marks as strip_marks
from keras_bert_impl.data.word_vocabulary import WordVocabulary as WordVocabulary

# isort: split
# Objectives
from keras_bert_impl.objectives.base import Objective as Objective
from keras_bert_impl.objectives.base import TextObjective as TextObjective
from keras_bert_impl.objectives.base import TokenObjective as TokenObjective
from keras_bert_impl.objectives.capitalization import Capitalization as Capitalization
from keras_bert_impl.objectives.capitalization import capitalized_pieces as capitalized_pieces
from keras_bert_impl.objectives.dataset import objectives_dataset as objectives_dataset
from keras_bert_impl.objectives.dataset import side_by_side as side_by_side
from keras_bert_impl.objectives.discourse_relation import CONNECTIVES as CONNECTIVES
from keras_bert_impl.objectives.discourse_relation import DiscourseRelation as DiscourseRelation
from keras_bert_impl.objectives.discourse_relation import discourse_pairs as discourse_pairs
from keras_bert_impl.objectives.discourse_relation import (
    discourse_pairs_within as discourse_pairs_within,
)
from keras_bert_impl.objectives.discourse_relation import (
    read_discourse_pairs as read_discourse_pairs,
)
from keras_bert_impl.objectives.ir_relevance import IRRelevance as IRRelevance
from keras_bert_impl.objectives.ir_relevance import clicked_pairs as clicked_pairs
from keras_bert_impl.objectives.ir_relevance import heading_pairs as heading_pairs
from keras_bert_impl.objectives.ir_relevance import read_click_log as read_click_log
from keras_bert_impl.objectives.masked_lm import MaskedLM as MaskedLM
from keras_bert_impl.objectives.next_sentence import NextSentence as NextSentence
from keras_bert_impl.objectives.schedule import Schedule as Schedule
from keras_bert_impl.objectives.schedule import continual as continual
from keras_bert_impl.objectives.schedule import multi_task as multi_task
from keras_bert_impl.objectives.schedule import sequential as sequential
from keras_bert_impl.objectives.sentence_distance import SentenceDistance as SentenceDistance
from keras_bert_impl.objectives.sentence_distance import (
    sentence_distance_pairs as sentence_distance_pairs,
)
from keras_bert_impl.objectives.sentence_order import SentenceOrder as SentenceOrder
from keras_bert_impl.objectives.sentence_order import sentence_order_pairs as sentence_order_pairs
from keras_bert_impl.objectives.sentence_reordering import SentenceReordering as SentenceReordering
from keras_bert_impl.objectives.sentence_reordering import (
    reordered_paragraphs as reordered_paragraphs,
)
from keras_bert_impl.objectives.table import OBJECTIVES as OBJECTIVES
from keras_bert_impl.objectives.token_document_relation import (
    TokenDocumentRelation as TokenDocumentRelation,
)
from keras_bert_impl.objectives.token_document_relation import document_counts as document_counts
from keras_bert_impl.objectives.token_document_relation import occurs_elsewhere as occurs_elsewhere

# isort: split
# Layers
from keras_bert_impl.layers.attention import SelfAttention as SelfAttention
from keras_bert_impl.layers.attention import make_attention_mask as make_attention_mask
from keras_bert_impl.layers.character_cnn import CharacterCNN as CharacterCNN
from keras_bert_impl.layers.embeddings import BertEmbeddings as BertEmbeddings
from keras_bert_impl.layers.encoder_layer import BertEncoderLayer as BertEncoderLayer
from keras_bert_impl.layers.fusion import fusing as fusing
from keras_bert_impl.layers.heads import MaskedLMHead as MaskedLMHead
from keras_bert_impl.layers.heads import NextSentenceHead as NextSentenceHead
from keras_bert_impl.layers.lstm_with_projection import ProjectedLSTM as ProjectedLSTM
from keras_bert_impl.layers.pooler import BertPooler as BertPooler
from keras_bert_impl.layers.scalar_mix import ScalarMix as ScalarMix

# isort: split
# Models
from keras_bert_impl.models.backbone import SIZES as SIZES
from keras_bert_impl.models.backbone import BertBackbone as BertBackbone
from keras_bert_impl.models.bidirectional_lm import BidirectionalLM as BidirectionalLM
from keras_bert_impl.models.causal_classifier import BertCausalClassifier as BertCausalClassifier
from keras_bert_impl.models.causal_lm import BertCausalLM as BertCausalLM
from keras_bert_impl.models.causal_lm_preprocessor import (
    BertCausalLMPreprocessor as BertCausalLMPreprocessor,
)
from keras_bert_impl.models.elmo import ELMO_SIZES as ELMO_SIZES
from keras_bert_impl.models.elmo import ElmoBackbone as ElmoBackbone
from keras_bert_impl.models.features import FEATURES as FEATURES
from keras_bert_impl.models.features import BertFeatures as BertFeatures
from keras_bert_impl.models.masked_lm import BertMaskedLM as BertMaskedLM
from keras_bert_impl.models.multiple_choice import BertMultipleChoice as BertMultipleChoice
from keras_bert_impl.models.multiple_choice_preprocessor import (
    BertMultipleChoicePreprocessor as BertMultipleChoicePreprocessor,
)
from keras_bert_impl.models.next_sentence import BertNextSentence as BertNextSentence
from keras_bert_impl.models.preprocessor import BertMaskedLMPreprocessor as BertMaskedLMPreprocessor
from keras_bert_impl.models.preprocessor import BertPreprocessor as BertPreprocessor
from keras_bert_impl.models.preprocessor import (
    BertPretrainerPreprocessor as BertPretrainerPreprocessor,
)
from keras_bert_impl.models.pretrainer import BertPretrainer as BertPretrainer
from keras_bert_impl.models.question_answering import BertQuestionAnswering as BertQuestionAnswering
from keras_bert_impl.models.question_answering_preprocessor import (
    BertQuestionAnsweringPreprocessor as BertQuestionAnsweringPreprocessor,
)
from keras_bert_impl.models.text_classifier import BertTextClassifier as BertTextClassifier
from keras_bert_impl.models.text_embedder import POOLINGS as POOLINGS
from keras_bert_impl.models.text_embedder import BertTextEmbedder as BertTextEmbedder
from keras_bert_impl.models.token_classifier import BertTokenClassifier as BertTokenClassifier
from keras_bert_impl.models.token_classifier_preprocessor import (
    BertTokenClassifierPreprocessor as BertTokenClassifierPreprocessor,
)

# isort: split
# Training
from keras_bert_impl.training.answer_metrics import answer_f1 as answer_f1
from keras_bert_impl.training.answer_metrics import best_thresholds as best_thresholds
from keras_bert_impl.training.answer_metrics import exact_match as exact_match
from keras_bert_impl.training.answer_metrics import normalize_answer as normalize_answer
from keras_bert_impl.training.answer_metrics import squad_1_scores as squad_1_scores
from keras_bert_impl.training.answer_metrics import squad_2_scores as squad_2_scores
from keras_bert_impl.training.classification_metrics import confusion_table as confusion_table
from keras_bert_impl.training.classification_metrics import label_table as label_table
from keras_bert_impl.training.classification_metrics import measure_answers as measure_answers
from keras_bert_impl.training.distribution import distribution_scope as distribution_scope
from keras_bert_impl.training.distribution import encoder_layout_map as encoder_layout_map
from keras_bert_impl.training.distribution import is_chief as is_chief
from keras_bert_impl.training.distribution import worker_position as worker_position
from keras_bert_impl.training.entity_metrics import EntityScores as EntityScores
from keras_bert_impl.training.entity_metrics import entity_scores as entity_scores
from keras_bert_impl.training.entity_metrics import entity_table as entity_table
from keras_bert_impl.training.finite import StopAtNonFinite as StopAtNonFinite
from keras_bert_impl.training.input_waits import InputWaits as InputWaits
from keras_bert_impl.training.long_run import fit_steps as fit_steps
from keras_bert_impl.training.losses import MaskedLMLoss as MaskedLMLoss
from keras_bert_impl.training.losses import WeightedMeanLoss as WeightedMeanLoss
from keras_bert_impl.training.optimizers import BertAdamW as BertAdamW
from keras_bert_impl.training.precision import choose_precision as choose_precision
from keras_bert_impl.training.precision import set_precision as set_precision
from keras_bert_impl.training.resume import EXIT_SAVED as EXIT_SAVED
from keras_bert_impl.training.resume import SaveState as SaveState
from keras_bert_impl.training.resume import resume as resume
from keras_bert_impl.training.schedules import SlantedTriangle as SlantedTriangle
from keras_bert_impl.training.schedules import WarmupLinearDecay as WarmupLinearDecay
from keras_bert_impl.training.stopwatch import Stopwatch as Stopwatch
from keras_bert_impl.training.unfreezing import GradualUnfreezing as GradualUnfreezing
from keras_bert_impl.training.unfreezing import freeze as freeze

# isort: split
# Checkpoints of other packages
from keras_bert_impl.checkpoints.checkpoint import LoadReport as LoadReport
from keras_bert_impl.checkpoints.keras_hub import to_keras_hub as to_keras_hub
from keras_bert_impl.checkpoints.loading import load_task as load_task
from keras_bert_impl.checkpoints.loading import load_tokenizer as load_tokenizer
from keras_bert_impl.checkpoints.loading import read_checkpoint as read_checkpoint
from keras_bert_impl.checkpoints.loading import save_checkpoint as save_checkpoint
from keras_bert_impl.checkpoints.parts import CheckpointError as CheckpointError
from keras_bert_impl.checkpoints.resizing import resize as resize

# isort: split
# Serving
from keras_bert_impl.serving.saved_model import export_saved_model as export_saved_model

__version__ = "0.1.0"
