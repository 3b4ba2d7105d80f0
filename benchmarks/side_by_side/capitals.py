from dataclasses import dataclass

from openai import OpenAI
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext


@dataclass
class Contains(Evaluator[str, str]):
    def evaluate(self, ctx: EvaluatorContext[str, str]) -> bool:
        return ctx.inputs in ctx.output


@dataclass
class AtMost400(Evaluator[str, str]):
    def evaluate(self, ctx: EvaluatorContext[str, str]) -> bool:
        return len(ctx.output) <= 400


def name_capital(country: str) -> str:
    messages = [{"role": "user", "content": f"Name the capital of {country}."}]
    response = OpenAI().chat.completions.create(model="gpt-4.1-mini", messages=messages)
    return response.choices[0].message.content


cases = [Case(name=country, inputs=country) for country in ("France", "Japan", "Peru")]
report = Dataset(name="capitals", cases=cases, evaluators=[Contains(), AtMost400()]).evaluate_sync(name_capital)
report.print()
