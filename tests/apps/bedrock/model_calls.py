"""The calls of an application that asks Amazon Bedrock, one function each."""

import asyncio
import json
import os
import sys

import boto3
import urllib3
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

ENDPOINT = os.environ.get("BEDROCK_URL")
CLAUDE = "anthropic.claude-sonnet-4-20250514-v1:0"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"
SYSTEM = [{"text": "You keep the tea."}]
SETTINGS = {"maxTokens": 50, "temperature": 0.0}


def client(**options):
    return boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=ENDPOINT, **options)


def asked(text):
    return {
        "messages": [{"role": "user", "content": [{"text": text}]}],
        "system": SYSTEM,
        "inferenceConfig": SETTINGS,
    }


def converse(model=CLAUDE, text="What time is it?", **options):
    answer = client(**options).converse(modelId=model, **asked(text))
    return answer["output"]["message"]["content"][0]["text"], answer["ResponseMetadata"]["RetryAttempts"]


def converse_profile():
    return converse(PROFILE)


def throttled():
    return converse("throttled.model", config=Config(retries={"max_attempts": 3, "mode": "standard"}))


def denied():
    try:
        return converse("denied.model")
    except ClientError as exc:
        return exc.response["Error"]["Code"], exc.response["ResponseMetadata"]["HTTPStatusCode"]


def stream(model="amazon.nova-lite-v1:0"):
    events = client().converse_stream(modelId=model, **asked("Tell me."))["stream"]
    return [event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event]


def left_stream():
    events = client().converse_stream(modelId="left.model", **asked("Tell me."))["stream"]
    first = next(event for event in events if "contentBlockDelta" in event)
    events.close()
    return first["contentBlockDelta"]["delta"]["text"]


def broken_stream():
    try:
        return stream("broken.model")
    except EventStreamError as exc:
        return str(exc)


def claude_body():
    message = {"role": "user", "content": "What time is it?"}
    return json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 50, "messages": [message]})


def invoke():
    return json.loads(client().invoke_model(modelId=CLAUDE, body=claude_body())["body"].read())["content"][0]["text"]


def embed():
    body = json.dumps({"inputText": "tea"})
    return json.loads(client().invoke_model(modelId="amazon.titan-embed-text-v2:0", body=body)["body"].read())


def invoke_stream():
    body = client().invoke_model_with_response_stream(modelId=CLAUDE, body=claude_body())["body"]
    return [json.loads(event["chunk"]["bytes"])["type"] for event in body]


async def _aio():
    from aiobotocore.session import get_session  # Imported where it is used: each takes a second.

    created = get_session().create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=ENDPOINT)
    async with created as async_client:
        answer = await async_client.converse(modelId=CLAUDE, **asked("And now?"))
        events = (await async_client.converse_stream(modelId=CLAUDE, **asked("And then?")))["stream"]
        texts = [
            event["contentBlockDelta"]["delta"]["text"] async for event in events if "contentBlockDelta" in event
        ]
        invoked = await async_client.invoke_model(modelId=CLAUDE, body=claude_body())
        body = json.loads(await invoked["body"].read())
        return answer["output"]["message"]["content"][0]["text"], texts, body["content"][0]["text"]


def aio():
    return asyncio.run(_aio())


MESSAGES = {"model": CLAUDE, "max_tokens": 50, "messages": [{"role": "user", "content": "Is it tea time?"}]}


def anthropic():
    from anthropic import AnthropicBedrock

    return AnthropicBedrock(base_url=ENDPOINT, aws_region="us-east-1").messages.create(**MESSAGES).content[0].text


def anthropic_stream():
    from anthropic import AsyncAnthropicBedrock

    async def ask():
        asynchronous = AsyncAnthropicBedrock(base_url=ENDPOINT, aws_region="us-east-1")
        async with asynchronous.messages.stream(**MESSAGES) as events:
            return [text async for text in events.text_stream]

    return asyncio.run(ask())


def plain_urllib3():
    pool = urllib3.PoolManager()
    answer = pool.request(
        "POST", f"{ENDPOINT or 'http://127.0.0.1:1'}/model/{CLAUDE}/converse", json=asked("By hand")
    )
    return answer.status, answer.json()["output"]["message"]["content"][0]["text"]


def main(names):
    for name in names:
        print(name, json.dumps(globals()[name]()))


if __name__ == "__main__":
    main(sys.argv[1:])
