"""At start: does the installed CRD know every field that this version needs?"""

import logging

from cacheaware import names
from cacheaware.api.installed import missing_fields
from cacheaware.kube import Kube, KubeError

log = logging.getLogger(__name__)

PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURAL}.{names.GROUP}"


async def outdated_fields(kube: Kube) -> tuple[str, ...]:
    """Fields that the installed CRD lacks: the API server drops them without a word.

    A limit that is dropped falls back to the safe one, not to none.
    """
    try:
        installed = await kube.get(PATH)
    except KubeError as error:
        log.info("the installed CRD was not compared: %s", error)
        return ()
    missing = tuple(missing_fields(installed))
    for field in missing:
        log.error("the installed CRD lacks %s: apply the CRD of this version", field)
    return missing
