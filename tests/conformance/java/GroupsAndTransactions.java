import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** What the Java clients do with groups and transactions. Prints one line per thing seen; fails loudly. */
public class GroupsAndTransactions {
  static final String STRING = "org.apache.kafka.common.serialization.String";
  static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";
  static final long PATIENCE_MS = 30_000;
  static String address;

  static KafkaConsumer<String, String> consumer(String group, String protocol, Object... more) {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", address);
    settings.put("group.id", group);
    settings.put("group.protocol", protocol);
    settings.put("auto.offset.reset", "earliest");
    settings.put("enable.auto.commit", "false");
    settings.put("isolation.level", "read_committed");
    settings.put("key.deserializer", STRING + "Deserializer");
    settings.put("value.deserializer", STRING + "Deserializer");
    settings.put("fetch.max.wait.ms", 50);
    settings.put("metadata.max.age.ms", 1000);
    if (protocol.equals("classic")) {
      settings.put("session.timeout.ms", 6000);
      settings.put("heartbeat.interval.ms", 200);
    }
    for (int i = 0; i < more.length; i += 2) settings.put((String) more[i], more[i + 1]);
    return new KafkaConsumer<>(settings);
  }

  static KafkaProducer<String, String> producer(String transactionalId, int timeoutMs) {
    KafkaProducer<String, String> made = new KafkaProducer<>(Map.of(
        "bootstrap.servers", address,
        "transactional.id", transactionalId,
        "transaction.timeout.ms", timeoutMs,
        "key.serializer", STRING + "Serializer",
        "value.serializer", STRING + "Serializer"));
    made.initTransactions();
    return made;
  }

  static void until(String what, Callable<Boolean> look) throws Exception {
    long end = System.currentTimeMillis() + PATIENCE_MS;
    while (!look.call())
      if (System.currentTimeMillis() > end) throw new AssertionError("waited in vain: " + what);
    System.out.println("seen: " + what);
  }

  /** Until the consumers together have so many partitions, evenly. */
  static void settle(String what, List<KafkaConsumer<String, String>> members, int partitions) throws Exception {
    until(what, () -> {
      int most = 0, least = partitions, all = 0;
      for (var member : members) {
        member.poll(Duration.ofMillis(50));
        int share = member.assignment().size();
        all += share;
        most = Math.max(most, share);
        least = Math.min(least, share);
      }
      return all == partitions && most - least <= 1;
    });
  }

  static void refused(String what, Callable<?> act) throws Exception {
    try {
      act.call();
    } catch (Exception expected) {
      System.out.println("seen: " + what);
      return;
    }
    throw new AssertionError("not refused: " + what);
  }

  public static void main(String[] arguments) throws Exception {
    address = arguments[0];
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
      admin.createTopics(List.of(new NewTopic("in", 6, (short) 1), new NewTopic("out", 1, (short) 1))).all().get();
      transactions(admin);
      for (String protocol : List.of("classic", "consumer")) {
        exactlyOnce(admin, protocol);
        staticMembers(admin, protocol);
      }
      for (String name : List.of("CooperativeSticky", "Sticky", "RoundRobin", "Range")) assignor(name);
      try (var reader = consumer("pattern", "consumer")) {
        reader.subscribe(new SubscriptionPattern("i.*"));
        settle("a pattern that the broker matches", List.of(reader), 6);
      }
      fencing();
      timeout(admin);
    }
  }

  static void transactions(Admin admin) throws Exception {
    try (var owner = producer("owner", 60_000)) {
      for (int number = 0; number < 5; number++) {
        owner.beginTransaction();
        for (int i = 0; i < 20; i++) owner.send(new ProducerRecord<>("in", (number % 2 == 0 ? "kept" : "lost") + i));
        if (number % 2 == 0) owner.commitTransaction();
        else owner.abortTransaction();
      }
    }
    int epoch = admin.describeTransactions(List.of("owner")).all().get().get("owner").producerEpoch();
    if (epoch != 5) throw new AssertionError("a new epoch per transaction, yet it is " + epoch);
    System.out.println("seen: a new epoch per transaction");
  }

  static void exactlyOnce(Admin admin, String protocol) throws Exception {
    String group = "once-" + protocol;
    try (var owner = producer(group, 60_000); var first = consumer(group, protocol)) {
      first.subscribe(List.of("in"));
      List<String> values = new ArrayList<>();
      until(protocol + ": committed records only", () -> {
        first.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
        return values.size() == 60;
      });
      if (values.stream().anyMatch(value -> value.startsWith("lost"))) throw new AssertionError("aborted record");
      Map<TopicPartition, OffsetAndMetadata> reached = new HashMap<>();
      for (var partition : first.assignment()) reached.put(partition, new OffsetAndMetadata(first.position(partition)));
      owner.beginTransaction();
      owner.send(new ProducerRecord<>("out", "result"));
      owner.sendOffsetsToTransaction(reached, first.groupMetadata());
      owner.commitTransaction();
      if (!first.committed(first.assignment()).equals(reached)) throw new AssertionError("offsets");
      try (var second = consumer(group, protocol)) {
        second.subscribe(List.of("in"));
        settle(protocol + ": two members share", List.of(first, second), 6);
        var seen = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        if (seen.members().size() != 2) throw new AssertionError("described: " + seen);
      }
      settle(protocol + ": one takes over", List.of(first), 6);
    }
    admin.deleteConsumerGroups(List.of(group)).all().get();
  }

  static void staticMembers(Admin admin, String protocol) throws Exception {
    String group = "static-" + protocol;
    int[] disturbed = {0};
    try (var stays = consumer(group, protocol, "group.instance.id", "stays")) {
      stays.subscribe(List.of("in"), new ConsumerRebalanceListener() {
        public void onPartitionsRevoked(Collection<TopicPartition> gone) {}
        public void onPartitionsAssigned(Collection<TopicPartition> given) { disturbed[0]++; }
      });
      Collection<TopicPartition> had;
      int before;
      try (var goes = consumer(group, protocol, "group.instance.id", "returns")) {
        goes.subscribe(List.of("in"));
        settle(protocol + ": two static members", List.of(stays, goes), 6);
        had = goes.assignment();
        before = disturbed[0];
      }
      try (var returns = consumer(group, protocol, "group.instance.id", "returns")) {
        returns.subscribe(List.of("in"));
        settle(protocol + ": one of them is back", List.of(stays, returns), 6);
        if (!returns.assignment().equals(had) || disturbed[0] != before) throw new AssertionError("disturbed");
      }
      if (protocol.equals("classic")) {
        var gone = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("returns")));
        admin.removeMembersFromConsumerGroup(group, gone).all().get();
        settle("an admin removes a static member", List.of(stays), 6);
      }
    }
  }

  static void assignor(String name) throws Exception {
    List<KafkaConsumer<String, String>> members = new ArrayList<>();
    for (int number = 1; number <= 3; number++) {
      var member = consumer(name, "classic", "partition.assignment.strategy", ASSIGNORS + name + "Assignor");
      member.subscribe(List.of("in"));
      members.add(member);
      settle(name + " with " + number, members, 6);
    }
    members.remove(0).close();
    settle(name + " after one left", members, 6);
    members.forEach(KafkaConsumer::close);
  }

  static void fencing() throws Exception {
    try (var zombie = producer("fenced", 60_000); var owner = producer("fenced", 60_000)) {
      refused("a zombie is fenced", () -> {
        zombie.beginTransaction();
        zombie.send(new ProducerRecord<>("out", "zombie")).get();
        zombie.commitTransaction();
        return null;
      });
      owner.beginTransaction();
      owner.send(new ProducerRecord<>("out", "live")).get();
      owner.commitTransaction();
    }
  }

  static void timeout(Admin admin) throws Exception {
    try (var late = producer("late", 1000)) {
      late.beginTransaction();
      late.send(new ProducerRecord<>("out", "late")).get();
      until("a transaction is aborted when its time is up", () ->
          admin.describeTransactions(List.of("late")).all().get().get("late").state().toString().equals("CompleteAbort"));
      refused("its owner cannot commit it", () -> {
        late.send(new ProducerRecord<>("out", "later")).get();
        late.commitTransaction();
        return null;
      });
      late.abortTransaction();
      late.beginTransaction();
      late.send(new ProducerRecord<>("out", "again")).get();
      late.commitTransaction();
      System.out.println("seen: after an abort its owner goes on");
    }
  }
}
