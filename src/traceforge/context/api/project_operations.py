"""Operations on projects and API keys: the operator sees those of all projects, other callers their own."""

from __future__ import annotations

from traceforge.context.api.operation_types import OperationArguments
from traceforge.context.model.objects import ApiKey, Deleted, Page, Project
from traceforge.context.project_store import Store
from traceforge.context.storage import projects
from traceforge.context.storage.insert_locks import API_KEY_LIST, PROJECT_LIST
from traceforge.context.storage.paging import unknown_cursor
from traceforge.context.storage.store_transaction import not_found
from traceforge.errors import StoreRefused


def create_project(store: Store, arguments: OperationArguments) -> Project:
    """Make a project.

    Raises:
        StoreRefused: the caller is not the operator.
    """
    if not arguments.operator:
        message = "only the operator makes projects: with an admin key of the first project, or on the command line"
        raise StoreRefused(message, reason="operator_only", status=403)
    return store.write(lambda tx: projects.create_project(tx.connection, store.keyring, arguments.body))


def list_projects(store: Store, arguments: OperationArguments) -> Page[Project]:
    """All projects for the operator, else the caller's own."""
    if arguments.operator:
        return list_every_project(store, arguments.limit, arguments.after)
    own = store.read(projects.get_project)
    if arguments.after not in (None, own.id):
        raise unknown_cursor(str(arguments.after))
    return Page(data=[] if arguments.after else [own], has_more=False)


def list_every_project(store: Store, limit: int, after: str | None) -> Page[Project]:
    """A page of all projects of the database."""
    return store.read_list(lambda tx: projects.list_projects(tx.connection, limit, after), PROJECT_LIST)


def create_api_key(store: Store, arguments: OperationArguments, key: str | None = None) -> ApiKey:
    """Make an API key, or store the given `key`. Only the operator makes one for another project.

    Raises:
        StoreRefused: the project does not exist, or is not the caller's.
    """
    project_id = arguments.body.project_id or store.project_id
    if not arguments.operator and project_id != store.project_id:
        raise not_found("project", project_id, "project_id")
    return store.write(
        lambda tx: projects.create_api_key(tx.connection, store.keyring, project_id, arguments.body, key)
    )


def list_api_keys(store: Store, arguments: OperationArguments) -> Page[ApiKey]:
    """The API keys of all projects for the operator, else those of the caller's project."""
    owner = None if arguments.operator else store.project_id
    return store.read_list(
        lambda tx: projects.list_api_keys(tx.connection, store.keyring, owner, arguments.limit, arguments.after),
        API_KEY_LIST,
    )


def delete_api_key(store: Store, arguments: OperationArguments) -> Deleted:
    """Revoke an API key: any for the operator, else one of the caller's project."""
    owner = None if arguments.operator else store.project_id
    return store.write(lambda tx: projects.delete_api_key(tx.connection, owner, *arguments.ids))
