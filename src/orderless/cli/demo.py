"""`orderless demo`: noisy sensors of one hidden drive, the scan on them, and shuffled."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SENSORS, TIME = 24, 240


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the picture goes, and which random numbers are drawn."""
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="default: demo.png")
    parser.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace) -> None:
    """Simulate, scan, shuffle, certify; print the numbers and save the picture."""
    import torch

    from orderless.nn import VI2DSSM
    from orderless.nn.comparison import OrderedSSM2D
    from orderless.theory import certify, equivariance_error

    torch.manual_seed(arguments.seed)
    drive, sensors = _simulate()
    alone, coupled = _follow(sensors, own_share=1.0), _follow(sensors, own_share=0.1)
    errors = {
        "the sensor itself": _error(sensors, drive),
        "scanned alone": _error(alone, drive),
        "scanned with the field of all": _error(coupled, drive),
    }
    print(f"{SENSORS} noisy sensors of one hidden drive. Error of what a sensor tells about it:")
    for name, error in errors.items():
        print(f"  {name:32}{error:.3f}")

    features = sensors @ torch.randn(1, 16, dtype=sensors.dtype)
    layers = {
        "VI2DSSM": VI2DSSM(16, states=8).double(),
        "ordered 2D scan": OrderedSSM2D(16, states=8).double(),
    }
    print("\nReordering the sensors changes more than the order of the output, relatively, by")
    for name, layer in layers.items():
        print(f"  {name:32}{equivariance_error(layer, features):.1e}")

    print("\nCertificate of the layer:")
    print(certify(layers["VI2DSSM"], SENSORS).to_text())

    changes = {name: _change_by_shuffling(layer, features) for name, layer in layers.items()}
    _draw(arguments.picture, drive, sensors, alone, coupled, errors, changes)
    print(f"\nPicture: {arguments.picture}")


def _simulate() -> "tuple[Tensor, Tensor]":
    """A hidden drive [1,1,T,1], and sensors [1,V,T,1] that see it through noise."""
    import torch

    time = torch.linspace(0, 6, TIME, dtype=torch.float64)
    phase = 6.28 * torch.rand(3, 1, dtype=torch.float64)
    rates = torch.tensor([[1.0], [2.3], [5.1]], dtype=torch.float64)
    drive = torch.sin(rates * time + phase).sum(0).reshape(1, 1, TIME, 1)
    return drive, drive + torch.randn(1, SENSORS, TIME, 1, dtype=torch.float64)


def _follow(sensors: "Tensor", *, own_share: float) -> "Tensor":
    """One scan: every sensor's h moves towards own_share x + (1 - own_share) field."""
    import torch

    from orderless.ops import Generator, mean_pool, vi_scan

    def constant(*values: float) -> torch.Tensor:
        return torch.tensor(values, dtype=sensors.dtype)

    rate = 0.6
    generator = Generator(*(constant(value).reshape(1, 1) for value in (-rate, -rate, 0.0)))
    first = constant(1.0, 0.0).reshape(1, 1, 1, 2, 1).expand(1, SENSORS, 1, 2, 1)
    y, _ = vi_scan(
        sensors,
        constant(1.0).reshape(1, 1, 1),
        generator,
        write=rate * own_share * first,
        read=first,
        field=mean_pool(sensors),
        field_write=rate * (1 - own_share) * first[:, 0],
    )
    return y


def _error(estimate: "Tensor", drive: "Tensor") -> float:
    return (estimate - drive).square().mean().sqrt().item()


def _change_by_shuffling(layer, features: "Tensor") -> "Tensor":
    """Shuffle, run, put back in order: what became of each sensor at each time, [V,T]."""
    import torch

    with torch.no_grad():
        order = torch.randperm(SENSORS)
        expected, _ = layer(features)
        shuffled, _ = layer(features[:, order])
        change = (shuffled[:, order.argsort()] - expected).norm(dim=-1)
        return (change / expected.norm(dim=-1).mean())[0]


def _draw(
    path: Path,
    drive: "Tensor",
    sensors: "Tensor",
    alone: "Tensor",
    coupled: "Tensor",
    errors: dict[str, float],
    changes: "dict[str, Tensor]",
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplot_mosaic("ss;ab", figsize=(10, 6.2), layout="constrained")
    axes = panels["s"]
    of_sensor, of_alone, of_coupled = errors.values()
    lines = (
        (sensors, f"one sensor ({of_sensor:.2f})", "0.78", 0.9, "-"),
        (alone, f"scanned alone ({of_alone:.2f})", "tab:orange", 1.4, "-"),
        (coupled, f"with the field of all ({of_coupled:.2f})", "tab:blue", 2.0, "-"),
        (drive, "the hidden drive", "black", 1.2, "--"),
    )
    for values, label, color, width, dash in lines:
        axes.plot(values[0, 0, :, 0].numpy(), color=color, lw=width, ls=dash, label=label)
    axes.set_title(f"One of {SENSORS} sensors (error over all of them)", loc="left")
    axes.set_xlim(0, TIME - 1)
    axes.set_ylim(bottom=axes.get_ylim()[0] - 1)
    axes.legend(ncols=4, loc="lower center", frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)

    largest = max(change.max().item() for change in changes.values())
    maps = panels["a"], panels["b"]
    for axes, (name, change) in zip(maps, changes.items(), strict=True):
        image = axes.imshow(
            change.numpy(), cmap="Reds", vmin=0, vmax=largest, aspect="auto", interpolation="none"
        )
        axes.set_title(f"Shuffling changes the {name} by up to {change.max():.0e}", fontsize=10)
        axes.set(xlabel="time", ylabel="sensor")
    figure.colorbar(image, ax=maps, label="relative change")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
