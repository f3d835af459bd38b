"""What the SDKs raise, in our words. Both are made alike: the names are the same in either."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lcm_core.summarize.models.wire import Said, Trouble, WireError, retry_after, said_in, trouble_of


@asynccontextmanager
async def sending(sdk: str) -> AsyncIterator[None]:
    """Around one call: whatever goes wrong in it is a `WireError`.

    Raises:
        WireError: no answer came back.
    """
    import httpx2

    names: Any = importlib.import_module(sdk)
    try:
        yield
    except WireError:
        raise
    except names.APIStatusError as error:
        raise _of_status(error) from None
    except names.APIConnectionError as error:
        raise _of_connection(error.__cause__ or error) from None
    except httpx2.TransportError as error:
        raise _of_connection(error) from None
    except (names.APIError, httpx2.HTTPError, httpx2.StreamError) as error:
        raise WireError(Trouble.LOST, f"the connection broke ({type(error).__name__})") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise WireError(Trouble.MALFORMED, f"what came back is no answer ({type(error).__name__})") from None


def _of_connection(cause: BaseException) -> WireError:
    import httpx2

    if isinstance(cause, WireError):  # of the gate, which the SDK took for the network
        return cause
    unsent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError)
    if isinstance(cause, httpx2.TimeoutException):
        return WireError(Trouble.LOST, "no answer in time", unsent=unsent)
    return WireError(Trouble.LOST, f"the connection broke ({type(cause).__name__})", unsent=unsent)


def _of_status(error: Any) -> WireError:
    status = int(error.status_code)
    if 300 <= status < 400:
        return WireError(
            Trouble.REQUEST, "the server points to another address, which is not followed", status=status
        )
    said = said_in(error.body)
    if not said.message:
        said = Said(str(error.message), said.kind)
    return WireError(
        trouble_of(status, said),
        said.message,
        status=status,
        retry_after=retry_after(error.response.headers),
    )
