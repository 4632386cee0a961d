"""Convolutional networks for images of shape (channels, height, width) and for signals of shape (channels, steps).

They are as the reproduced studies describe them, and all of them give logits: the last layer has no activation,
whatever a published table says.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from fedloom.models.chain import Shape, chain, dense, dropout, flat_size
from fedloom.models.model_kind import takes_images, takes_signals


@takes_images(8)
def cnn(
    input_shape: Shape,
    classes: int,
    widths: Sequence[Sequence[int]] = ((32, 64), (128, 128), (256, 256)),
    hidden: Sequence[int] = (512, 512),
    drop: Sequence[float] = (0.05, 0.1, 0.1),
) -> nn.Sequential:
    """Three blocks of two 3×3 convolutions and a max-pool, then three linear layers (CIFAR-10).

    Psaltis, Federated, Multi-agent, Deep Reinforcement Learning (thesis, 2024), chapter 4; widths and dropout are
    those of NVFlare's CIFAR-10 example, which took them from FedMA (Wang et al., ICLR 2020). The rates are for the
    maps after the second block, before the linear layers and before the head. The first rate drops single values
    where NVFlare drops whole maps.
    """
    layers: list[nn.Module] = []
    maps = input_shape[0]
    for number, block in enumerate(widths, start=1):
        for width in block:
            layers += [nn.Conv2d(maps, width, 3, padding=1), nn.ReLU()]
            maps = width
        layers.append(nn.MaxPool2d(2))
        if number == 2:
            layers += dropout(drop[0])
    layers += [nn.Flatten(), *dropout(drop[1])]
    layers += [*dense(flat_size(layers, input_shape), hidden), *dropout(drop[2])]
    return chain(layers, nn.Linear(hidden[-1], classes))


@takes_images(8)
def cnn_small(input_shape: Shape, classes: int) -> nn.Sequential:
    """The cnn scaled to 8-16-16 maps and linear layers of 64, without dropout: for 8×8 to 32×32 images."""
    return cnn(input_shape, classes, widths=((8, 8), (16, 16), (16, 16)), hidden=(64, 64), drop=(0.0, 0.0, 0.0))


@takes_images(16)
def cnn_two(input_shape: Shape, classes: int) -> nn.Sequential:
    """Two 5×5 convolutions of 32 and 64 maps, each pooled, and one linear layer.

    The model of FedPredict with client selection (2 conv + 1 FC); the sizes, which the document leaves open, are ours:
    69,706 parameters for 32×32 colour images and 10 classes, 122,539 for 43.
    """
    layers: list[nn.Module] = [
        *(nn.Conv2d(input_shape[0], 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
    ]
    return chain(layers, nn.Linear(flat_size(layers, input_shape), classes))


@takes_images(16)
def lenet(input_shape: Shape, classes: int, filters: int = 64, hidden: Sequence[int] = (384, 192)) -> nn.Sequential:
    """LeNet-5 with 64 filters per convolution and linear layers of 384 and 192 (CIFAR-10 and CIFAR-100).

    The model of FedSeq (Zaccone et al., ICPR 2022), after Hsu et al., 2019. 797,962 parameters for 32×32 colour
    images and 10 classes, 815,332 for 100. The FedSeq thesis lists a ReLU on the last layer, which cannot be meant.
    """
    layers: list[nn.Module] = [
        *(nn.Conv2d(input_shape[0], filters, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(filters, filters, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
    ]
    layers += dense(flat_size(layers, input_shape), hidden)
    return chain(layers, nn.Linear(hidden[-1], classes))


@takes_images(12)
def lenet_small(input_shape: Shape, classes: int) -> nn.Sequential:
    """The classical LeNet-5 with ReLU and max-pooling: 61,706 parameters on 28×28 grey images and 10 classes.

    LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998. A 28×28 image is padded by 2, as there.
    """
    layers: list[nn.Module] = [
        *(nn.Conv2d(input_shape[0], 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
    ]
    layers += dense(flat_size(layers, input_shape), (120, 84))
    return chain(layers, nn.Linear(84, classes))


@takes_images(6)
def emnist_cnn(input_shape: Shape, classes: int) -> nn.Sequential:
    """Two 3×3 convolutions and two linear layers for 28×28 characters: 1,206,590 parameters with 62 classes.

    The EMNIST model of FedSeq's thesis, after Reddi et al., Adaptive Federated Optimization, ICLR 2021. As in its
    table there is no activation after the first convolution and after the first linear layer; the table's 10
    outputs are an error for 62 classes.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(input_shape[0], 32, 3),
        *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)),
        nn.Flatten(),
    ]
    layers += [nn.Linear(flat_size(layers, input_shape), 128), nn.Dropout(0.5)]
    return chain(layers, nn.Linear(128, classes))


@takes_signals(16)
def conv1d(input_shape: Shape, classes: int) -> nn.Sequential:
    """Two convolutions of width 5 over time, each pooled by 4, then a linear layer of 64 (UCI HAR: 9×128)."""
    layers: list[nn.Module] = [
        *(nn.Conv1d(input_shape[0], 32, 5, padding=2), nn.ReLU(), nn.MaxPool1d(4)),
        *(nn.Conv1d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool1d(4)),
        nn.Flatten(),
    ]
    layers += dense(flat_size(layers, input_shape), (64,))
    return chain(layers, nn.Linear(64, classes))
