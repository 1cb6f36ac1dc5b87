"""A service that is away is waited for, and the log says so; one that refuses is reported with the remedy."""

import logging
import threading
import time
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder, reach
from hab_ray.storage.s3.connection import Connection
from hab_ray.storage.s3.objects import Objects
from hab_ray.storage.s3.requests import Requests
from tests.s3_proxy import S3Proxy
from tests.seaweed import SECRET_KEY

pytestmark = pytest.mark.usefixtures("quick")


def test_an_outage_is_waited_for_and_told(bucket: str, proxy: S3Proxy, caplog: pytest.LogCaptureFixture) -> None:
    folder = open_folder(Location.of(bucket))
    folder.put("x", b"1")
    proxy.trouble.dead = True
    threading.Timer(2.5, setattr, (proxy.trouble, "dead", False)).start()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        folder.put("x", b"2")
    assert 2.4 < time.monotonic() - began < 20
    assert folder.get("x") == b"2"
    first, last = (record.getMessage() for record in (caplog.records[0], caplog.records[-1]))
    assert (
        first.startswith(f"s3://hab-tests at {proxy.endpoint}: ")
        and "; retrying" in first
        and "answers again" in last
        and len(caplog.records) == 2
    )


def test_a_service_that_asks_to_slow_down_gets_every_request_in_the_end(bucket: str, proxy: S3Proxy) -> None:
    folder = open_folder(Location.of(bucket))
    proxy.trouble.slow = 0.3
    for n in range(40):
        folder.put_new(f"many/{n:02d}", b"%d" % n)
    assert [folder.get(name) for name in folder.list("many")] == [b"%d" % n for n in range(40)]
    assert proxy.counts()["PUT"] > 45


def test_a_conflict_of_two_conditional_writes_is_tried_again() -> None:
    """SeaweedFS never answers 409; AWS may."""
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stub:
        stub.add_client_error("put_object", "ConditionalRequestConflict", http_status_code=409)
        stub.add_response("put_object", {"ETag": '"e"'})
        Objects(Requests(Connection(client, "http://stub"), "b"), "b", "").put_new("x", b"1")
        stub.assert_no_pending_responses()


def test_a_mistake_of_our_own_is_raised_and_not_repeated() -> None:
    with pytest.raises(AttributeError):
        Requests(Connection(object(), "http://stub"), "b").send("put_object")


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"AWS_ACCESS_KEY_ID": "nobody"}, None, "does not accept these credentials.*AWS_ACCESS_KEY_ID"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, None, "does not accept these credentials"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, None, "no credentials; set AWS_ACCESS_KEY_ID"),
        ({}, "s3://hab-no-such-bucket/x", "there is no bucket hab-no-such-bucket there; create it"),
        ({"AWS_ENDPOINT_URL_S3": "not an address"}, None, "check AWS_PROFILE, AWS_ENDPOINT_URL_S3"),
        ({"AWS_PROFILE": "nobody"}, None, "check AWS_PROFILE"),
        ({"HAB_CACHE_GB": "much"}, None, "HAB_CACHE_GB=much: not a size"),
    ],
)
def test_wrong_settings_are_one_message_with_the_remedy(
    changes: dict[str, str], place: str | None, message: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changes.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match=message) as caught:
        reach(Location.of(place or bucket))
    shown = f"{caught.value!s} {caught.value.__cause__!s}"
    assert SECRET_KEY not in shown and "wrong-secret" not in shown and "\n" not in shown


def test_without_boto3_the_extra_is_named(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "another-environment")
    with pytest.raises(ConfigError, match=r"pip install '\.\[s3\]'"):
        open_folder(Location.of(bucket))


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("list_objects_v2", {"IsTruncated": False, "Contents": [{"Key": "x", "ETag": '"e"', "Size": 1}]}),
        ("put_object", {"ETag": '"e"'}),
        ("head_object", {"ETag": '"e"', "ContentLength": 1}),
    ],
)
def test_a_login_page_is_no_empty_bucket_and_no_object(method: str, answer: dict[str, Any]) -> None:
    """boto3 reads a page, or an empty body, with status 200 as an answer without fields."""
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stub:
        stub.add_response(method, {})
        stub.add_response(method, answer)
        asked: dict[str, Any] = {"list_objects_v2": {"Prefix": ""}}.get(method, {"Key": "x"})
        given = Requests(Connection(client, "http://stub"), "b").send(method, **asked)
    assert given == answer
