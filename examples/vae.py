"""A variational autoencoder on handwritten digits: two numbers for each image, and new images from two numbers.

The loss is the price of describing an image: −log p(x | z) and the divergence of q(z | x) from a normal
distribution; z is drawn as mean + deviation · ε, so that the gradient passes through.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import backsolve as bs
from backsolve import nn, optim

F = nn.functional


class VAE(nn.Module):
    def __init__(self, hidden: int = 128, latent: int = 2):
        self.encoder = nn.Sequential(
            nn.Linear(64, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, 64))

    def encode(self, x):
        return np.split(self.encoder(x), 2, axis=-1)  # mean and log of the deviation


def price(model, batch):
    """Of one image, in nats."""
    x, noise = batch
    mean, log_deviation = model.encode(x)
    z = mean + np.exp(log_deviation) * noise
    picture = F.binary_cross_entropy_with_logits(model.decoder(z), x, reduction="sum") / len(x)
    square = mean**2 + np.exp(2 * log_deviation)
    code = np.sum(square - 1 - 2 * log_deviation) / 2 / len(x)
    return picture + code, {"picture": picture, "code": code}


def with_noise(x, rng):
    return x, rng.normal(size=(len(x), 2)).astype(np.float32)


def draw(image) -> str:
    """Darker signs for brighter pixels."""
    return "\n".join("".join(" ░▒▓█"[min(int(v * 5), 4)] * 2 for v in row) for row in image)


def images():
    return (load_digits().data / 16).astype(np.float32)


def train(steps: int):
    x = images()
    nn.manual_seed(0)
    batches = bs.data.Batches(x, 64, seed=0, transform=with_noise)
    count = steps * (len(x) // 64 + 1)
    optimizer = optim.Adam(lr=optim.schedules.cosine(5e-3, count))
    return bs.fit(VAE(), price, batches, optimizer=optimizer, epochs=steps)


def main(steps: int = 60) -> float:
    fitted = train(steps)
    history = fitted.history
    print(f"nats an image: {history['loss'][0]:.2f} → {history['loss'][-1]:.2f}", end=", ")
    print(f"picture {history['picture'][-1]:.2f}, code {history['code'][-1]:.2f}")
    along = np.stack([np.linspace(-2, 2, 5), np.zeros(5)], axis=1).astype(np.float32)
    for image in 1 / (1 + np.exp(-fitted.model.decoder(along))):
        print(draw(image.reshape(8, 8)), end="\n\n")
    return float(history["loss"][-1])


if __name__ == "__main__":
    main()
