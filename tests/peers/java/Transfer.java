import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;

/**
 * Reads, transforms and writes in transactions: Transfer BOOTSTRAP INPUT OUTPUT TOTAL.
 *
 * Every third transaction is given up and done again. At the end a second producer takes the name of the first,
 * which must then be turned away. Written for any client since 2.8.
 */
public final class Transfer {
    private static final String SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer";
    private static final String DESERIALIZER = "org.apache.kafka.common.serialization.StringDeserializer";

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String output = arguments[2];
        int total = Integer.parseInt(arguments[3]);
        int done = 0;
        int tried = 0;
        try (var consumer = consumer(bootstrap, arguments[1]); var producer = producer(bootstrap, output)) {
            consumer.subscribe(List.of(arguments[1]));
            while (done < total) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(output, record.key(), record.value().toUpperCase()));
                    var place = new TopicPartition(record.topic(), record.partition());
                    next.put(place, new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                if (++tried % 3 == 0) {
                    producer.abortTransaction();
                    Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(next.keySet());
                    for (TopicPartition place : next.keySet()) {
                        OffsetAndMetadata at = committed.get(place);
                        consumer.seek(place, at == null ? 0 : at.offset());
                    }
                } else {
                    producer.commitTransaction();
                    done += records.count();
                }
            }
            fence(bootstrap, output, producer);
        }
        System.out.println("transferred " + done);
    }

    private static void fence(String bootstrap, String output, KafkaProducer<String, String> old) throws Exception {
        try (var successor = producer(bootstrap, output)) {
            old.beginTransaction();
            old.send(new ProducerRecord<>(output, "late", "LATE"));
            old.commitTransaction();
            throw new IllegalStateException("a producer whose name was taken could still commit");
        } catch (ProducerFencedException | InvalidProducerEpochException expected) {
            System.out.println("fenced");
        }
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String output) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", "transfer-" + output);
        settings.put("key.serializer", SERIALIZER);
        settings.put("value.serializer", SERIALIZER);
        var producer = new KafkaProducer<String, String>(settings);
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String input) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", "transfer-" + input);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "50");
        settings.put("key.deserializer", DESERIALIZER);
        settings.put("value.deserializer", DESERIALIZER);
        return new KafkaConsumer<>(settings);
    }
}
