"""The HTTP application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from headrace.access.principal import Principal
from headrace.api.openai.chat import parse_chat_request
from headrace.api.openai.completions import parse_completion_request
from headrace.edge.generation import GenerationEndpoint
from headrace.edge.grammars import GrammarDesk
from headrace.edge.health import HealthEndpoint
from headrace.edge.middleware import ExchangeMiddleware
from headrace.edge.models import ModelsEndpoint
from headrace.edge.plan import Plan, Planner
from headrace.edge.published import PublishedPrefixes
from headrace.edge.responses import EXPECTED_FAULTS, answer_fault, answer_router
from headrace.edge.services import Services


def create_app(services: Services) -> Starlette:
    """The application over the rooms behind it, which the caller starts and stops."""
    workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tokenise")
    desk = GrammarDesk(services.compiler)
    planner = Planner(
        services.model,
        services.prompts,
        services.decoder,
        PublishedPrefixes.of_texts(services.published_texts, services.prompts),
        workers,
        desk,
    )

    async def chat(body: bytes, id: UUID, principal: Principal) -> Plan:
        parse = partial(parse_chat_request, body, max_choices=services.max_choices)
        request = await planner.aside(len(body), parse)
        return await planner.chat(request, id, principal)

    async def completion(body: bytes, id: UUID, principal: Principal) -> Plan:
        parse = partial(parse_completion_request, body, max_choices=services.max_choices)
        request = await planner.aside(len(body), parse)
        return await planner.completion(request, id, principal)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        workers.shutdown(wait=False, cancel_futures=True)
        desk.close()

    models, health = ModelsEndpoint(services), HealthEndpoint(services)
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", GenerationEndpoint(services, chat), methods=["POST"]),
            Route("/v1/completions", GenerationEndpoint(services, completion), methods=["POST"]),
            Route("/v1/models", models.list, methods=["GET"]),
            Route("/v1/models/{model:path}", models.show, methods=["GET"]),
            Route("/healthz", health.live, methods=["GET"]),
            Route("/readyz", health.ready, methods=["GET"]),
            Route("/", health.index, methods=["GET"]),
        ],
        middleware=[
            Middleware(ExchangeMiddleware),
            Middleware(
                CORSMiddleware,
                allow_origins=["*"],
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=["x-request-id", "retry-after"],
            ),
        ],
        exception_handlers={
            HTTPException: answer_router,
            **dict.fromkeys(EXPECTED_FAULTS, answer_fault),
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app
