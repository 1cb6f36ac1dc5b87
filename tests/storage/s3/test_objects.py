"""Puts whose answer is lost are known as done, and only by the call that did them."""

from unittest.mock import MagicMock

import pytest

from hab_ray.storage.s3.connection import Connection
from hab_ray.storage.s3.folder import S3Folder
from hab_ray.storage.s3.objects import Objects
from hab_ray.storage.s3.requests import Requests
from tests.s3_proxy import S3Proxy
from tests.storage.s3.conftest import anew

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(bucket: str, proxy: S3Proxy) -> S3Folder:
    return anew(bucket)


def test_a_put_new_whose_answer_was_lost_is_this_calls(folder: S3Folder, proxy: S3Proxy) -> None:
    proxy.trouble.lost.add("events/1")
    folder.put_new("events/1", b"mine")
    assert folder.get("events/1") == b"mine"
    assert [seen.kind for seen in proxy.seen if seen.name.endswith("events/1")][:3] == ["PUT", "PUT", "HEAD"]


def test_a_put_new_that_another_won_while_this_ones_fate_was_unknown_fails(folder: S3Folder, proxy: S3Proxy) -> None:
    """Both write the same bytes, so only the nonce tells them apart."""
    folder.put_new("events/2", b"same")
    proxy.trouble.lost.add("events/2")
    with pytest.raises(FileExistsError, match="events/2"):
        folder.put_new("events/2", b"same")


@pytest.mark.parametrize("verb", ["put", "move", "delete", "get", "list"])
def test_what_is_repeated_does_no_harm(verb: str, folder: S3Folder, proxy: S3Proxy) -> None:
    folder.put("a/x", b"old")
    proxy.trouble.lost.add("a/x" if verb != "list" else "a/")
    match verb:
        case "put":
            folder.put("a/x", b"new")
            assert folder.get("a/x") == b"new"
        case "move":
            proxy.trouble.lost.add("a/y")
            folder.move("a/x", "a/y")
            assert folder.list("a") == ["a/y"] and folder.get("a/y") == b"old"
        case "delete":
            folder.delete("a/x")
            assert folder.list("a") == []
        case "get":
            assert folder.get("a/x") == b"old"
        case _:
            assert folder.list("a") == ["a/x"]
    assert not proxy.trouble.lost


def test_objects_that_a_bulk_delete_could_not_remove_are_deleted_one_by_one() -> None:
    """S3 reports them in an answer with status 200."""
    client = MagicMock()
    client.delete_objects.return_value = {"Errors": [{"Key": "runs/b", "Code": "InternalError"}]}
    Objects(Requests(Connection(client, "http://s3"), "bucket"), "bucket", "runs").delete(["a", "b"])
    client.delete_object.assert_called_once_with(Bucket="bucket", Key="runs/b")


def test_no_bulk_delete_has_more_than_a_thousand_names() -> None:
    client = MagicMock()
    client.delete_objects.return_value = {}
    Objects(Requests(Connection(client, "http://s3"), "bucket"), "bucket", "runs").delete([f"{n}" for n in range(1001)])
    assert [len(call.kwargs["Delete"]["Objects"]) for call in client.delete_objects.call_args_list] == [1000, 1]
