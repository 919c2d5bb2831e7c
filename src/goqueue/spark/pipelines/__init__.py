"""Pipelines before they run: reads files and modules, finds mistakes, plans and draws.

    load        a path -> Reading: the pipeline, or everything that is wrong
      yaml_file   YAML -> nodes with places            module    a Python module -> the same nodes
      parse       nodes -> parts (parse_sources, parse_steps, parse_sinks), by way of `fields`
      check       all parts together -> model.PipelineSpec
    graph       who reads whom; picture, draw_text, draw_mermaid: the plan as people see it

Nothing here needs Spark, Java or a broker.
"""

from __future__ import annotations

from goqueue.spark.pipelines.spec.load import LoadedFile, load, read_text
from goqueue.spark.pipelines.spec.model import PipelineSpec
from goqueue.spark.pipelines.spec.module import Pipeline
from goqueue.spark.pipelines.spec.nodes import Mistake, MistakeSeverity, SourceLocation

__all__ = [
    "LoadedFile",
    "Mistake",
    "MistakeSeverity",
    "Pipeline",
    "PipelineSpec",
    "SourceLocation",
    "load",
    "read_text",
]
