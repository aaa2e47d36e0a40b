"""Make the sample data: a small overconfident network on scikit-learn's handwritten digits.

    python sample_data/make_digits.py

needs ``pip install torch scikit-learn`` and writes beside this script

- ``digits_images.npz``  the 1377 images that the network never saw, enlarged to 24 x 24 grey
  pixels, with labels, ids (rows of scikit-learn's data set) and class names;
- ``digits.pt2``  the network, a torch.export program for any number of images;
- ``digits.h5``  its logits in two groups, ``cal`` and ``test``, with those of eight zoom-outs
  and four darkenings of the same images.

The network is trained on 420 images, 5 % of them with a wrong label, and on zoom-outs of
them, until it knows every one by heart: right on nine digits of ten, and far too sure.

The images are those of E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten
Digits, UCI Machine Learning Repository, CC BY 4.0, as scikit-learn ships them.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits

from calcli.extracting.model_inputs import ModelJob
from calcli.extracting.run import run_model
from calcli.extracting.transforms import parse
from calcli.importers.building.dealing import Splitting
from calcli.io.split import parse_split

HERE = Path(__file__).parent
SIZE, TRAINING, NOISE, EPOCHS, SEED = 24, 420, 0.05, 240, 0
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 24, 5, stride=2, padding=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(24, 48, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(48, 48, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveMaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(192, 10),
    )


def enlarged(images: np.ndarray) -> np.ndarray:
    """(n, 8, 8) of 0..16 to (n, SIZE, SIZE, 1) bytes."""
    small = (images * 255 / 16).round().astype(np.uint8)
    large = [
        np.asarray(Image.fromarray(i).resize((SIZE, SIZE), Image.Resampling.BILINEAR))
        for i in small
    ]
    return np.stack(large)[..., None]


def train(
    images: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> torch.nn.Module:
    """Fit the network to the images and two zoom-outs of them, one after another."""
    wrong = rng.random(len(labels)) < NOISE
    labels = np.where(wrong, rng.integers(10, size=len(labels)), labels)
    x = images.astype(np.float32) / 255
    views = []
    for spec in ("zoom:1", "zoom:0.85", "zoom:0.7"):
        kind, argument = parse(spec)
        moved = kind.apply(x, argument, np.zeros(len(x)))
        views.append(
            torch.from_numpy(np.ascontiguousarray(moved.transpose(0, 3, 1, 2)))
        )
    torch.manual_seed(SEED)
    net = network()
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for epoch in range(EPOCHS):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            net(views[epoch % len(views)]), torch.from_numpy(labels)
        )
        loss.backward()
        optimiser.step()
    return net.eval()


def main() -> None:
    torch.set_num_threads(1)  # the same sums in the same order everywhere
    rng = np.random.default_rng(SEED)
    digits = load_digits()
    images = enlarged(digits.images)
    order = rng.permutation(len(images))
    seen, unseen = order[:TRAINING], np.sort(order[TRAINING:])
    net = train(images[seen], digits.target[seen], rng)
    batch = torch.export.Dim("batch")
    example = torch.zeros(2, 1, SIZE, SIZE)
    torch.export.save(
        torch.export.export(net, (example,), dynamic_shapes=({0: batch},)),
        HERE / "digits.pt2",
    )
    np.savez_compressed(
        HERE / "digits_images.npz",
        images=images[unseen],
        labels=digits.target[unseen],
        ids=unseen,
        class_names=np.asarray(NAMES),
    )
    texts = ("cal=0.5", "test=rest")
    job = ModelJob(
        model=str(HERE / "digits.pt2"),
        inputs=str(HERE / "digits_images.npz"),
        transform=(
            "zoom:0.5:0.9:8",
            "brightness:0.2",
            "brightness:0.35",
            "brightness:0.5",
            "brightness:0.65",
        ),
        seed=SEED,
        device="cpu",
    )
    splitting = Splitting(tuple(map(parse_split, texts)), seed=SEED, texts=texts)
    report = run_model(job, HERE / "digits.h5", splitting, force=True)
    for bundle in report.bundles:
        print(
            f"digits.h5:{bundle.name}: {bundle.n} x {bundle.k}, {bundle.transforms} transforms"
        )


if __name__ == "__main__":
    main()
