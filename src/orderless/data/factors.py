"""Loadings of variables: how each answers to the few things that all of them have in common.

They are estimated from training rows alone, system by system, in the units of the transform, and
belong to a variable by its name. Clipped values decide, so that a broken sensor cannot; few rows
are shrunk towards what needs none, that all variables are alike: then the factor is their mean.
A variable that `fit` did not see is regressed on the factors of those it did, a system that `fit`
did not see has the leading direction of its own history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from orderless.data.groups import key_of, match_groups
from orderless.data.panel import System, canonical_order
from orderless.data.transform import Scaled
from orderless.errors import ModelFileError
from orderless.ops.factors import MOST, Loadings, factor_scores, orthonormal

FARTHEST = 4.0
"""Robust standard deviations from the median at which values are clipped."""
FEWEST_ROWS, MOST_ENTRIES = 2048, 2**24
"""Rows beyond `FEWEST_ROWS` are thinned evenly if there are more than so many entries."""
MOST_ROWS = 2048
"""Of history that loadings of unseen variables are estimated from."""
TRUSTED = 1000
"""Rows of history after which a center is half as good as one of training."""
MOST_CALM = 10.0
"""By how much at most the scale of a variable is taken to be wrong."""
RANK = 1e-6
"""Of the largest eigenvalue; what is less is rounding."""


@dataclass(frozen=True)
class Factors:
    """Loadings of `fit`: for each group its variables, in order, and their loadings."""

    variables: Mapping[str, tuple[str, ...]]
    loadings: Mapping[str, Loadings]

    @classmethod
    def learn(
        cls, systems: Sequence[System], scaled: Sequence[Scaled], ends: Sequence[int]
    ) -> "Factors":
        """From the first `ends` time steps of each system, in the units of `scaled`."""
        keys = [key_of(system) for system in systems]
        parts = zip(keys, scaled, ends, strict=True)
        loadings = {
            key: principal_loadings(one.values[:, :end], one.observed[:, :end])
            for key, one, end in parts
        }
        return cls({key: one.names for key, one in zip(keys, scaled, strict=True)}, loadings)

    def of(self, system: System, scaled: Scaled, end: int | None = None) -> Loadings:
        """Loadings of the variables of a system as in `scaled`, from what lies before `end`.

        Where `fit` saw all of them, they are those of `fit`.
        """
        (key,) = match_groups([system], self.variables)
        if key is None and len(self.variables) == 1 and system.name == 0:
            # Where there was one group, data without a group is of that.
            (key,) = self.variables
        place = {name: row for row, name in enumerate(self.variables.get(key or "", ()))}
        rows = np.array([place.get(name, -1) for name in scaled.names])
        known = rows >= 0
        if known.all():
            return self.loadings[key or ""].of(rows)
        values, observed = _history(system, scaled, end)
        if not observed[known].any():
            own = principal_loadings(values, observed)
            own.gains[:, 1:] = 0.0
            return own._replace(trust=_trust(observed))
        theirs = self.loadings[key or ""].of(rows[known])
        found = regress_loadings(
            values[~known], observed[~known], values[known], observed[known], theirs
        )
        both = [torch.cat(pair) for pair in zip(theirs, found, strict=True)]
        order = torch.from_numpy(
            np.argsort(np.concatenate((*known.nonzero(), *(~known).nonzero())))
        )
        return Loadings(*both).of(order)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Names as JSON, and the loadings of all groups in turn."""
        parts = zip(Loadings._fields, zip(*self.loadings.values(), strict=True), strict=True)
        tensors = {f"factors/{name}": torch.cat(each) for name, each in parts}
        return {key: list(names) for key, names in self.variables.items()}, tensors

    @classmethod
    def restore(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> "Factors":
        """What `state` gave."""
        sizes = [len(names) for names in facts.values()]
        for name, shape in zip(Loadings._fields, ((MOST,), (), (), ()), strict=True):
            found = tensors.get(f"factors/{name}")
            if found is None or found.shape != (sum(sizes), *shape) or found.dtype != torch.float32:
                raise ModelFileError(f"factors/{name} does not hold loadings of all variables.")
        parts = [tensors[f"factors/{name}"].split(sizes) for name in Loadings._fields]
        loadings = {
            key: Loadings(*each) for key, each in zip(facts, zip(*parts, strict=True), strict=True)
        }
        return cls({key: tuple(names) for key, names in facts.items()}, loadings)


def principal_loadings(values: np.ndarray, observed: np.ndarray) -> Loadings:
    """Robust, shrunk principal components of rows [variable, time], and robust centers.

    The covariance of clipped values is shrunk towards its nearest canonical form (all variables
    alike), by as much as makes the expected error least (Ledoit and Wolf) for as many rows as
    there are independent ones. Shrinking moves the components as one more row would in which all
    variables are alike. Linear in the number of variables, and in that of rows until they are
    thinned.
    """
    variables, steps = values.shape
    every = max(1, -(-steps // max(FEWEST_ROWS, MOST_ENTRIES // variables)))
    z, centers, rows = _clipped(values[:, ::every], observed[:, ::every])
    diagonal = z.square().sum(1).double() / rows
    total = float(diagonal.sum())
    gains = centers.new_zeros(variables, MOST)
    if variables < 2 or total == 0.0:
        return Loadings(gains, centers, torch.ones_like(centers), torch.ones_like(centers))
    dual = z.shape[1] < variables
    gram = (z.mT @ z if dual else z @ z.mT).double() / rows
    squares = float(gram.square().sum() - diagonal.square().sum())
    pairs = variables * (variables - 1)
    sums = z.sum(0).double() / rows**0.5
    alike = (float(sums.square().sum()) - total) / pairs
    noise = (total**2 + squares - float(diagonal.square().sum())) / independent_rows(z, rows)
    apart = squares - pairs * alike**2
    shrink = min(1.0, noise / apart) if apart > 0 else 1.0
    kept, row = (1 - shrink) ** 0.5, (shrink * max(alike, 0.0)) ** 0.5
    gram *= kept**2
    if dual:
        border = kept * row * sums
        corner = sums.new_tensor([[variables * row**2]])
        gram = torch.cat(
            (torch.cat((gram, border[:, None]), 1), torch.cat((border[None], corner), 1))
        )
    else:
        gram += row**2
    eigenvalues, vectors = torch.linalg.eigh(gram)
    eigenvalues, vectors = eigenvalues.flip(0)[:MOST], vectors.flip(1)[:, :MOST]
    if dual:
        scores, last = vectors[:-1].float(), vectors[-1:].float()
        vectors = (kept / rows**0.5 * (z @ scores) + row * last).double()
        vectors /= eigenvalues.clamp(min=1e-300).sqrt()
    real = eigenvalues > RANK * eigenvalues[0]
    vectors = torch.where(real, vectors, 0.0) * variables**0.5
    gains[:, : vectors.shape[1]] = (vectors * torch.where(vectors.sum(0) < 0, -1.0, 1.0)).float()
    return Loadings(gains, centers, torch.ones_like(centers), torch.ones_like(centers))


def regress_loadings(
    values: np.ndarray,
    observed: np.ndarray,
    known: np.ndarray,
    known_observed: np.ndarray,
    theirs: Loadings,
) -> Loadings:
    """Loadings of variables that `fit` did not see, by the factors of those it did.

    Least squares of rows [variable, time] on the factors, shrunk towards what is usual among the
    known loadings by how few rows there are; 0 for a variable without any.
    """
    alive = known_observed.any(1)
    theirs, seen = theirs.of(alive), torch.from_numpy(known_observed[alive])
    gains = theirs.gains.double()
    rows = torch.from_numpy(np.where(known_observed, known, 0.0)[alive])
    rows = rows - theirs.centers[:, None].double()
    rows = torch.where(seen, rows.clamp(-FARTHEST, FARTHEST), 0.0)
    basis = orthonormal(gains[None])
    factors = factor_scores(rows[None], basis, seen[None])[0]
    # In the units in which x = gains factor: the basis spans the same.
    factors = torch.linalg.lstsq(gains, basis[0] @ factors, driver="gelsd").solution
    z, centers, _ = _clipped(values, observed)
    there = torch.from_numpy(observed)
    units = _units(rows, seen, there)
    z = z.double() * units[:, None]
    count = there.sum(1).clamp(min=1)
    at = (there.double() @ factors.mT) / count[:, None]
    about = factors - factors.mean(1, keepdim=True)
    share = independent_rows(about, about.shape[1]) / about.shape[1]
    usual = gains.mean(0)
    spread = gains.mT @ gains / len(gains) - torch.outer(usual, usual)
    precision = torch.linalg.inv(spread + 0.01 * torch.eye(MOST, dtype=torch.float64))
    found = torch.zeros(len(z), MOST, dtype=torch.float64)
    for row in there.any(1).nonzero().squeeze(1).tolist():
        x = factors[:, there[row]] - at[row][:, None]
        y = z[row, there[row]]
        weight = share / (0.5 * y.square().mean()).clamp(min=1e-12)
        left = weight * x @ x.mT + precision
        found[row] = torch.linalg.solve(left, weight * x @ y + precision @ usual)
    centers = centers - ((found * at).sum(1) / units).float()
    return Loadings(found.float(), centers, units.float(), _trust(observed))


def _units(known: Tensor, seen: Tensor, there: Tensor) -> Tensor:
    """[variable] how much the known ones [row, time] move while it is there, of what is usual.

    A scale from calm days is too small by as much as the others are calm.
    """
    count = (seen.double() @ there.double().mT).clamp(min=1)
    mean = known @ there.double().mT / count
    power = (known.square() @ there.double().mT / count - mean.square()).clamp(min=0)
    weight = count / count.sum(0)
    return (weight * power).sum(0).sqrt().clamp(1 / MOST_CALM, MOST_CALM)


def independent_rows(z: Tensor, rows: int) -> float:
    """As how many independent rows those of z [variable, time] count, each like the one before.

    The variance of a covariance of two such series is larger by (1 + r^2) / (1 - r^2).
    """
    power = float(z.square().sum())
    if rows < 3 or power == 0.0:
        return 1.0
    alike = min(max(float((z[:, 1:] * z[:, :-1]).sum()) / power, 0.0), 0.9999) ** 2
    return max(1.0, rows * (1 - alike) / (1 + alike))


def stack_loadings(
    each: Sequence[Loadings | None], device: torch.device | str = "cpu"
) -> Loadings | None:
    """Those of each system as [system, variable, ...], 0 for variables it does not have."""
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        return None
    parts = (pad_sequence(list(part), batch_first=True) for part in zip(*known, strict=True))
    return Loadings(*(part.to(device) for part in parts))


def _clipped(values: np.ndarray, observed: np.ndarray) -> tuple[Tensor, Tensor, int]:
    """Clipped values around their mean [variable, time], 0 where missing; the means; the rows.

    A variable of which some is missing is scaled up to its variance.
    """
    x = np.where(observed, values, np.nan).astype(np.float32)
    rising = np.sort(x, axis=1)  # NaN comes last
    count = observed.sum(1)
    low, middle, high = (_at(rising, count, share) for share in (0.1, 0.5, 0.9))
    del rising
    deviation = (high - low) / 2.563
    # More than eight in ten readings are one value: how far the others lie is all there is.
    deviation = np.where(deviation > 0, deviation, np.inf)
    np.clip(x, middle - FARTHEST * deviation, middle + FARTHEST * deviation, out=x)
    z = torch.from_numpy(np.nan_to_num(x, copy=False))
    there = torch.from_numpy(observed)
    number = torch.from_numpy(np.maximum(count, 1))[:, None].float()
    mean = z.sum(1, keepdim=True) / number
    z = torch.where(there, z.sub_(mean), 0.0)
    rows = max(1, int(there.any(0).sum()))
    return z.mul_((rows / number).sqrt()), mean[:, 0], rows


def _at(rising: np.ndarray, count: np.ndarray, share: float) -> np.ndarray:
    """The quantile [variable, 1] of so many readings in rising order; 0 of none."""
    place = np.round(share * np.maximum(count - 1, 0)).astype(np.int64)
    return np.nan_to_num(np.take_along_axis(rising, place[:, None], 1))


def _history(system: System, scaled: Scaled, end: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The last rows before `end`, in the units and the order of `scaled`."""
    order, _ = canonical_order(system.variables)
    values = system.values[order, :end][:, -MOST_ROWS:]
    scale = np.where(np.isnan(scaled.scale), 1.0, scaled.scale)
    return (values - scaled.center) / scale, system.observed[order, :end][:, -MOST_ROWS:]


def _trust(observed: np.ndarray) -> Tensor:
    """Of centers that come from a history [variable, time] instead of training."""
    rows = torch.from_numpy(observed.sum(1)).float()
    return rows / (rows + TRUSTED)
