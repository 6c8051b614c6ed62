"""The HTTP application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.api.anthropic import rate_limits as anthropic
from headrace.api.openai import rate_limits as openai
from headrace.edge.admin.office import Office
from headrace.edge.admin.routes import admin_routes
from headrace.edge.answering import Answering
from headrace.edge.aside import Aside
from headrace.edge.dialects import Chat, Completion
from headrace.edge.documents import inference_document, serve_document
from headrace.edge.front import Front
from headrace.edge.generation import GenerationEndpoint
from headrace.edge.health import HealthEndpoint
from headrace.edge.messages import CountEndpoint, MessagesEndpoint
from headrace.edge.metrics import MetricsEndpoint
from headrace.edge.models import ModelsEndpoint
from headrace.edge.responses import answer_router
from headrace.edge.services import Services

CORS: Mapping[str, Any] = {
    "allow_origins": ["*"],
    "allow_methods": ["GET", "POST"],
    "allow_headers": ["*"],
    "expose_headers": [
        "x-request-id",
        "request-id",
        "x-headrace-route",
        "retry-after",
        *openai.HEADERS,
        *anthropic.HEADERS,
    ],
}
"""Browsers may ask from any page: whoever asks has a key."""


def create_app(services: Services, aside: Aside, office: Office | None = None) -> Front:
    """The application over the rooms behind it, which the caller starts and stops. Without an
    office nothing is administered."""
    chat = GenerationEndpoint(services, Chat(services.max_choices), aside)
    completion = GenerationEndpoint(services, Completion(services.max_choices), aside)
    messages, counting = MessagesEndpoint(services, aside), CountEndpoint(services, aside)
    models, health = ModelsEndpoint(services), HealthEndpoint(services)
    metrics = MetricsEndpoint(services)
    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", completion, methods=["POST"]),
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/v1/messages/count_tokens", counting, methods=["POST"]),
        Route("/v1/models", models.all, methods=["GET"]),
        Route("/v1/models/{model:path}", models.show, methods=["GET"]),
        Route("/healthz", health.live, methods=["GET"]),
        Route("/readyz", health.ready, methods=["GET"]),
        Route("/metrics", metrics.show, methods=["GET"]),
        Route("/openapi.json", serve_document(inference_document), methods=["GET"]),
        Route("/", health.index, methods=["GET"]),
        *(admin_routes(services, office) if office else ()),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(CORSMiddleware, **CORS), Middleware(Answering)],
        exception_handlers={HTTPException: answer_router},
    )
    app.router.redirect_slashes = False
    posts: dict[str, ASGIApp] = {
        "/v1/chat/completions": chat,
        "/v1/completions": completion,
        "/v1/messages": messages,
        "/v1/messages/count_tokens": counting,
    }
    direct = {path: Answering(post) for path, post in posts.items()}
    endpoints = {route.endpoint: route.path for route in routes}
    return Front(app, services.meter, direct, endpoints, lambda: services.models.draining)
