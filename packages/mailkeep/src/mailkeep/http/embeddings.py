"""The administration of embeddings over HTTP, on loopback like everything else (docs/spec/search.md section 9)."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from mailkeep.app import App
from mailkeep.embeddings import forecast_json, render_metrics, report_json
from mailkeep.errors import EmbeddingsNotDeclared, ReindexRefused
from mailkeep.jobs import telemetry as jobs
from mailkeep.mutations import metrics as recognition
from mailkeep.mutations import signals

PATH: Final = "/api/admin/embeddings"
_SIGNALS: Final = (render_metrics, recognition.render_metrics, signals.render_metrics, jobs.render_metrics)
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def add_routes(application: FastAPI) -> None:
    """Status, forecast, activation and cancellation, and the signals for Prometheus."""
    application.add_api_route(PATH, _status)
    application.add_api_route(f"{PATH}/activation", _forecast)
    application.add_api_route(f"{PATH}/activation", _activate, methods=["POST"])
    application.add_api_route(f"{PATH}/reindex/cancellation", _cancel, methods=["POST"])
    application.add_api_route("/metrics", _metrics)
    application.add_exception_handler(ReindexRefused, _conflict)
    application.add_exception_handler(EmbeddingsNotDeclared, _conflict)


def _app(request: Request) -> App:
    mailkeep: App = request.app.state.mailkeep
    return mailkeep


async def _status(request: Request) -> Any:
    return report_json(await _app(request).embeddings.report())


async def _forecast(request: Request) -> Any:
    return forecast_json(await _app(request).embeddings.forecast())


async def _activate(request: Request) -> Any:
    registration, _ = await _app(request).activate_embeddings()
    return {"outcome": registration.value}


async def _cancel(request: Request) -> Any:
    return {"outcome": (await _app(request).cancel_embeddings()).value}


async def _metrics() -> Response:
    rendered = b"".join(part() for part in _SIGNALS)
    return Response(rendered, media_type=METRICS_TYPE)


async def _conflict(_: Request, error: Exception) -> Response:
    """409 with the sentence: it names numbers and settings, never mail."""
    assert isinstance(error, ReindexRefused | EmbeddingsNotDeclared)
    return JSONResponse({"code": error.code, "message": error.message}, status_code=409)
