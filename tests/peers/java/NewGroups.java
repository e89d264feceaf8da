import java.time.Duration;
import java.util.HashSet;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;

/**
 * Two members of a group under the newer protocol (KIP-848): NewGroups BOOTSTRAP GROUP PATTERN PARTITIONS TOTAL.
 *
 * The broker matches the pattern and divides the partitions; when one member leaves, the other gets all of them.
 */
public final class NewGroups {
    private static final Set<String> SEEN = new HashSet<>();

    public static void main(String[] arguments) {
        int partitions = Integer.parseInt(arguments[3]);
        int total = Integer.parseInt(arguments[4]);
        try (var first = consumer(arguments); var second = consumer(arguments)) {
            first.subscribe(new SubscriptionPattern(arguments[2]));
            second.subscribe(new SubscriptionPattern(arguments[2]));
            while (first.assignment().isEmpty() || second.assignment().isEmpty()
                    || first.assignment().size() + second.assignment().size() < partitions) {
                read(first);
                read(second);
            }
            Set<TopicPartition> all = new HashSet<>(first.assignment());
            all.addAll(second.assignment());
            if (all.size() != partitions) {
                throw new IllegalStateException("divided badly: " + first.assignment() + second.assignment());
            }
            System.out.println("divided " + first.assignment().size() + " " + second.assignment().size());
            second.commitSync();
            second.close();
            while (first.assignment().size() < partitions) {
                read(first);
            }
            System.out.println("inherited " + first.assignment().size());
            while (SEEN.size() < total) {
                read(first);
            }
            first.commitSync();
            System.out.println("read " + SEEN.size());
        }
    }

    private static void read(KafkaConsumer<String, String> consumer) {
        for (var record : consumer.poll(Duration.ofMillis(100))) {
            if (!SEEN.add(record.value())) {
                throw new IllegalStateException("read twice: " + record.value());
            }
        }
    }

    private static KafkaConsumer<String, String> consumer(String[] arguments) {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("group.protocol", "consumer");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return new KafkaConsumer<>(settings);
    }
}
