"""Documents in the words of `tests/small.py`, with capitals and connectives."""

import random

from tests.small import WORDS


def documents(number=24, seed=0):
    rng = random.Random(seed)
    words = [word for word in WORDS if word.isalpha()]
    made = []
    for _ in range(number):
        sentences = []
        for _ in range(rng.randint(2, 6)):
            sentence = [rng.choice(words) for _ in range(rng.randint(1, 5))]
            sentence[0] = sentence[0].capitalize()
            connective = rng.choice(["", "", "However, ", "So "])
            sentences.append(connective + " ".join(sentence))
        made.append(sentences)
    return made
