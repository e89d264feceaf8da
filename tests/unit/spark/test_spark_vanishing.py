"""A topic that is deleted while a trigger is planned is told of as one that is not there."""

import pytest

from mainstem.client import Client, ClientSettings, admin, parse_bootstrap
from mainstem.model.errors import UnknownTopic
from mainstem.spark.source import MainstemSource
from mainstem.testing import Broker


class Deletes(Client):
    """Deletes a topic after it was found, before anybody asks where it ends."""

    def offsets(self, times_ms, *, committed=False):
        names = {place.topic for place in times_ms}
        for name in names & {"fleeting"}:
            with Client(self.settings) as other:
                admin.delete_topic(other, name)
        return super().offsets(times_ms, committed=committed)


@pytest.mark.parametrize("how", ["subscribe", "subscribePattern"])
def test_a_topic_that_is_deleted_between_two_questions_is_not_there(how):
    with Broker() as broker:
        settings = ClientSettings(parse_bootstrap(broker.kafka))
        wanted = {"subscribe": "fleeting", "subscribePattern": "fleeting|kept"}[how]
        reader = MainstemSource({"kafka.bootstrap.servers": broker.kafka, how: wanted}).streamReader(None)
        with Deletes(settings) as client:
            admin.create_topic(client, "fleeting", 1)
            admin.create_topic(client, "kept", 1)
            reader._client = client
            if how == "subscribe":
                with pytest.raises(UnknownTopic, match="there is no topic 'fleeting'"):
                    reader.reportLatestOffset()
            else:
                assert reader.reportLatestOffset() == {"kept": {"0": 0}}
