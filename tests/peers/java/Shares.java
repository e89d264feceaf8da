import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members of a share group: they share, release, reject, renew, and what is left is another's. */
public class Shares {
    static String bootstrap;
    static String group;

    static KafkaShareConsumer<String, String> member(String topic, String mode, String acquire) {
        Map<String, Object> settings = new TreeMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", mode);
        settings.put("share.acquire.mode", acquire);
        settings.put("max.poll.records", 20);
        var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        group = arguments[1];
        String topic = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            var earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            var change = new AlterConfigOp(earliest, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            share(topic, count);
            var listed = new TreeSet<String>();
            admin.listGroups(ListGroupsOptions.forShareGroups()).all().get().forEach(one -> listed.add(one.groupId()));
            System.out.println("listed " + listed.contains(group));
            var described = admin.describeShareGroups(List.of(group)).all().get().get(group);
            System.out.println("described " + described.groupState() + " " + described.members().size());
            long start = 0;
            var spec = Map.of(group, new ListShareGroupOffsetsSpec());
            var offsets = admin.listShareGroupOffsets(spec).partitionsToOffsetInfo(group).get();
            for (var one : offsets.values()) {
                start += one.startOffset();
            }
            System.out.println("done with " + start);
            admin.alterShareGroupOffsets(group, Map.of(new TopicPartition(topic, 0), 0L)).all().get();
            admin.deleteShareGroupOffsets(group, java.util.Set.of(topic)).all().get();
            admin.deleteShareGroups(List.of(group)).all().get();
            System.out.println("deleted");
        }
    }

    static void share(String topic, int count) {
        var seen = new TreeMap<String, Integer>();
        var first = member(topic, "explicit", "record_limit");
        int renewed = 0;
        var deadline = System.currentTimeMillis() + 60_000;
        // The first releases every third record once, rejects none, and renews what it keeps.
        while (seen.size() < count / 2 && System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<String, String> record : first.poll(Duration.ofMillis(500))) {
                boolean again = record.offset() % 3 == 0 && record.deliveryCount().get() == 1;
                if (again) {
                    first.acknowledge(record, AcknowledgeType.RELEASE);
                } else {
                    seen.merge(record.value(), 1, Integer::sum);
                    first.acknowledge(record, AcknowledgeType.ACCEPT);
                }
            }
            first.commitSync();
        }
        // It keeps some, asks for more time for one of them, and goes without a word on the others.
        List<ConsumerRecord<String, String>> kept = new ArrayList<>();
        first.poll(Duration.ofSeconds(5)).forEach(kept::add);
        if (!kept.isEmpty()) {
            for (var record : kept) {
                first.acknowledge(record, AcknowledgeType.RENEW);
            }
            first.commitSync().values().forEach(error -> error.ifPresent(e -> System.out.println("error " + e)));
            renewed = kept.size();
        }
        first.close();
        System.out.println("renewed " + (renewed > 0));
        try (var second = member(topic, "implicit", "batch_optimized")) {
            while (seen.size() < count && System.currentTimeMillis() < deadline) {
                for (var record : second.poll(Duration.ofMillis(500))) {
                    seen.merge(record.value(), 1, Integer::sum);
                }
            }
            second.commitSync();
        }
        System.out.println("seen " + seen.size());
        System.out.println("twice " + seen.values().stream().filter(times -> times > 1).count());
    }
}
