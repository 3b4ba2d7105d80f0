"""The Google SDK."""

import os

from google import genai

CLIENT = genai.Client(
    api_key="none", http_options=genai.types.HttpOptions(base_url=os.environ["GOOGLE_GEMINI_BASE_URL"])
)
SETTINGS = genai.types.GenerateContentConfig(
    temperature=0, seed=7, max_output_tokens=60, system_instruction="You are brief."
)


def test_gemini_text():
    assert CLIENT.models.generate_content(model="gemini-2.5-flash", contents="Name a fish.", config=SETTINGS).text


def test_gemini_stream():
    pieces = CLIENT.models.generate_content_stream(model="gemini-2.5-flash", contents="Tell a tale.", config=SETTINGS)
    assert "".join(piece.text or "" for piece in pieces)
