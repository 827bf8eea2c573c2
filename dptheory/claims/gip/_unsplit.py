"""Claims that do not have a file of their own yet; this module goes when the last one has."""

from dptheory.claims.gip import (
    alternatives,
    angle,
    direction,
    errors,
    mechanism,
    numbers,
    privacy,
    random_k,
    replacement,
    response,
    sampling,
    tight,
    top_k,
)

CLAIMS = (
    *mechanism.CLAIMS,
    *privacy.CLAIMS,
    *random_k.CLAIMS,
    *replacement.CLAIMS,
    *tight.CLAIMS,
    *alternatives.CLAIMS,
    *sampling.CLAIMS,
    *errors.CLAIMS,
    *top_k.CLAIMS,
    *direction.CLAIMS,
    *angle.CLAIMS,
    *response.CLAIMS,
    *numbers.CLAIMS,
)
