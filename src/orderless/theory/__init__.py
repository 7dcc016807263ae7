"""What the paper proves, as functions: canonical form, modes, certificates, symmetry checks."""

from orderless.theory.canonical_form import (
    CanonicalForm,
    distance_to_canonical_form,
    nearest_canonical_form,
)
from orderless.theory.certificate import Certifiable, Certificate, LayerCertificate, certify
from orderless.theory.factors import (
    FactorCertificate,
    FactorForm,
    certify_factors,
    nearest_factor_form,
)
from orderless.theory.modes import Mode, mode
from orderless.theory.symmetry import causality_error, equivariance_error

__all__ = [
    "CanonicalForm",
    "Certifiable",
    "Certificate",
    "FactorCertificate",
    "FactorForm",
    "LayerCertificate",
    "Mode",
    "causality_error",
    "certify",
    "certify_factors",
    "distance_to_canonical_form",
    "equivariance_error",
    "mode",
    "nearest_canonical_form",
    "nearest_factor_form",
]
