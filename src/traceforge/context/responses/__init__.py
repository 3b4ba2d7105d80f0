"""Responses of models: releases, the prompt as a provider takes it, the call, and OpenAI's format of all that."""
