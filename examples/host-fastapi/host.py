"""A small host: it owns tenants, principals and sessions; the inbox is mounted below /api, behind its own sign-in.

Any number of these may run on one database. `uvicorn --factory host:create_app` starts one; DATABASE_URL names the
database.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    MailboxScope,
    MailboxVocabulary,
    PostgresMailboxEventBus,
    create_mailbox_db,
    mount_mailbox,
    run_mailbox_migrations,
)

PAGE = Path(__file__).with_name("page.html")
VOCABULARY = MailboxVocabulary(priorities=("urgent", "normal", "low"), statuses=("open", "waiting", "done"))
CONTROL_PLANE = (
    "CREATE TABLE IF NOT EXISTS public.tenant (id text PRIMARY KEY, name text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS public.principal (id text PRIMARY KEY, name text NOT NULL,"
    " tenant_id text NOT NULL REFERENCES public.tenant (id) ON DELETE CASCADE)",
    "CREATE TABLE IF NOT EXISTS public.session (token text PRIMARY KEY,"
    " principal_id text NOT NULL REFERENCES public.principal (id) ON DELETE CASCADE)",
    "INSERT INTO public.tenant VALUES ('acme', 'Acme'), ('globex', 'Globex') ON CONFLICT DO NOTHING",
    "INSERT INTO public.principal VALUES ('ann', 'Ann', 'acme'), ('bob', 'Bob', 'acme'), ('gus', 'Gus', 'globex')"
    " ON CONFLICT DO NOTHING",
    # A real host makes these at sign-in; here everybody's session is the word that a person types into the address bar.
    "INSERT INTO public.session VALUES ('ann-session', 'ann'), ('bob-session', 'bob'), ('gus-session', 'gus')"
    " ON CONFLICT DO NOTHING",
)


async def prepare(db: AsyncEngine) -> None:
    """The host's own tables, then the inbox's. Safe at each start of each replica."""
    async with db.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(20261201)"))
        for statement in CONTROL_PLANE:
            await connection.execute(text(statement))
    await run_mailbox_migrations(db)


def create_app() -> FastAPI:
    """One replica."""
    db, close = create_mailbox_db(os.environ["DATABASE_URL"])
    bus = PostgresMailboxEventBus(db)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await prepare(db)
        async with bus.listening():
            yield
        await close()

    async def resolve_principal(request: Request) -> MailboxScope | None:
        """Who asks, by the host's session cookie."""
        async with db.connect() as connection:
            found = await connection.execute(
                text(
                    "SELECT p.tenant_id, p.id FROM public.session AS s"
                    " JOIN public.principal AS p ON p.id = s.principal_id WHERE s.token = :token"
                ),
                {"token": request.cookies.get("session", "")},
            )
            row = found.one_or_none()
        return None if row is None else MailboxScope(*row)

    async def sender_names(tenant_id: str, _headers: object) -> dict[str, str]:
        """Names for the addresses of this tenant's own people."""
        async with db.connect() as connection:
            rows = await connection.execute(
                text("SELECT id, name FROM public.principal WHERE tenant_id = :tenant"), {"tenant": tenant_id}
            )
            return {f"{row.id}@{tenant_id}.example": row.name for row in rows}

    app = FastAPI(title="Host", lifespan=lifespan)
    app.include_router(
        mount_mailbox(
            APIRouter(),
            db=db,
            bus=bus,
            resolve_principal=resolve_principal,
            vocabulary=VOCABULARY,
            resolve_sender_displays=sender_names,
            resumable_events=True,
        ),
        prefix="/api",
    )

    @app.get("/sign-in/{token}", include_in_schema=False)
    async def sign_in(token: str) -> Response:
        if not token.isascii() or not token.replace("-", "").isalnum():
            raise HTTPException(404)
        answer = RedirectResponse("/", 303)
        answer.set_cookie("session", token, httponly=True, samesite="lax")
        return answer

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE)

    return app
