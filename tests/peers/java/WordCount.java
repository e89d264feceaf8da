import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KeyValueMapper;

/**
 * Counts words, exactly once: WordCount BOOTSTRAP INPUT OUTPUT STATE_FOLDER. Runs until it is ended.
 *
 * Without a cache every word makes one record of its running count, so that what is in OUTPUT tells whether a
 * word was lost or counted twice.
 */
public final class WordCount {
    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count-" + arguments[1]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", 6000);
        settings.put("producer.transaction.timeout.ms", 10000);

        var builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((KeyValueMapper<String, String, String>) (key, word) -> word)
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[2]);

        var streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        Thread.currentThread().join();
    }
}
