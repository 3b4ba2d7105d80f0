"""Clients as applications share them: between threads, with a forked child, beside other services of AWS."""

import io
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config
from model_calls import CLAUDE, asked, client

PASS_MODELS = {"core": {"mock_credentials": False, "passthrough": {"urls": [r".*/model/.*"]}}}


def text_of(answer):
    return answer["output"]["message"]["content"][0]["text"]


def threads():
    shared = client(config=Config(max_pool_connections=32))
    with ThreadPoolExecutor(32) as pool:
        texts = pool.map(lambda n: text_of(shared.converse(modelId=CLAUDE, **asked(f"Number {n}"))), range(96))
        return [*texts] == [f"You said Number {n}" for n in range(96)]


def fork():
    shared = client()
    shared.converse(modelId=CLAUDE, **asked("Before"))
    child = os.fork()
    if not child:
        is_right = "You said In the child" == text_of(shared.converse(modelId=CLAUDE, **asked("In the child")))
        os._exit(0 if is_right else 1)
    return os.waitpid(child, 0)[1]


def threaded_streams():
    shared = client(config=Config(max_pool_connections=4))

    def ask(number):
        events = shared.converse_stream(modelId=CLAUDE, **asked(f"Stream {number}"))["stream"]
        return "".join(
            event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event
        )

    with ThreadPoolExecutor(8) as pool:
        return sorted({*pool.map(ask, range(16))})


def beside_moto():
    from moto import mock_aws  # Imported where it is used: it takes seconds.

    with mock_aws(config=PASS_MODELS):
        return ask_beside_moto()


def ask_beside_moto():
    bucket = boto3.client("s3", region_name="us-east-1")
    bucket.create_bucket(Bucket="menu")
    bucket.upload_fileobj(io.BytesIO(b"x" * 100_000), "menu", "soup")
    size = bucket.head_object(Bucket="menu", Key="soup")["ContentLength"]
    return size, text_of(client().converse(modelId=CLAUDE, **asked("Beside a mock")))


def profile():
    session = boto3.Session(profile_name="kitchen")
    own = session.client("bedrock-runtime", endpoint_url=os.environ.get("BEDROCK_URL"))
    return text_of(own.converse(modelId=CLAUDE, **asked("As the kitchen")))


def bucket_upload():
    options = {"endpoint_url": os.environ["BEDROCK_URL"], "region_name": "us-east-1"}
    bucket = boto3.client(
        "s3", config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}), **options
    )
    bucket.put_object(Bucket="menu", Key="soup", Body=io.BytesIO(b"x" * 300_000))
    return bucket.get_object(Bucket="menu", Key="soup")["Body"].read().decode()


def main(names):
    for name in names:
        print(name, json.dumps(globals()[name]()))


if __name__ == "__main__":
    main(sys.argv[1:])
