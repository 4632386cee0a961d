"""The bag of words: padding changes nothing, and it learns what a text is about."""

import torch

from fedloom.models import build


def test_more_padding_gives_the_same_output():
    model = build("bag-of-words", (6,), 3, 0, vocabulary=20)
    tokens = torch.tensor([[2, 5, 1, 0, 0, 0], [7, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    longer = torch.nn.functional.pad(tokens, (0, 40))
    assert torch.allclose(model(longer), model(tokens), atol=1e-6)
    assert torch.equal(model(tokens)[2], model.head.bias)


def test_the_features_are_the_sum_over_the_root_of_the_number_of_words():
    model = build("bag-of-words", (3,), 3, 0, vocabulary=9, embedding=4)
    vectors = model.embedding.weight
    found = model.features(torch.tensor([[3, 4, 4], [5, 0, 0]]))
    assert torch.allclose(found[0], (vectors[3] + 2 * vectors[4]) / 3**0.5)
    assert torch.equal(found[1], vectors[5])


def test_several_clients_train_together_as_each_alone():
    model = build("bag-of-words", (5,), 3, 0, vocabulary=9, embedding=4)
    weights = {name: torch.stack([value, value + 0.1]) for name, value in model.state_dict().items()}
    tokens = torch.randint(0, 9, (2, 6, 5), generator=torch.Generator().manual_seed(0))
    call = torch.func.functional_call
    together = torch.func.vmap(lambda w, x: call(model, w, (x,)))(weights, tokens)
    for k in range(2):
        alone = call(model, {name: value[k] for name, value in weights.items()}, (tokens[k],))
        assert torch.allclose(together[k], alone, atol=1e-6)
