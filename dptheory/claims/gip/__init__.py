"""Gradient index pruning (GIP): index mechanism, errors, direction, and the printed numbers."""

from dptheory.claims.gip import angle, direction, errors, mechanism, numbers, response, sampling, top_k

CLAIMS = (
    *mechanism.CLAIMS,
    *sampling.CLAIMS,
    *errors.CLAIMS,
    *top_k.CLAIMS,
    *direction.CLAIMS,
    *angle.CLAIMS,
    *response.CLAIMS,
    *numbers.CLAIMS,
)
