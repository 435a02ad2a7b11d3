"""The playbook: a model that needs no key. Rules of known infrastructure faults, applied to what the tools said."""

from infra_agent.models.playbook.model import Playbook

__all__ = ["Playbook"]
