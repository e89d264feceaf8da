'use strict';
// What amqplib, RabbitMQ's client for Node, makes of a broker: `node scenarios.js NAME HOST PORT ...` plays one
// scenario and tells in one line of JSON what it saw. The test that runs it knows what it should have seen, and
// ends one that waits for what does not come.

const { createHash } = require('node:crypto');
const { once } = require('node:events');
const { isDeepStrictEqual } = require('node:util');
const amqplib = require('amqplib');

const [scenario, hostname, port, ...given] = process.argv.slice(2);
const HEARTBEAT = Buffer.from([8, 0, 0, 0, 0, 0, 0, 0xce]);
const opened = [];

async function open(more = {}, socket = {}) {
  const connection = await amqplib.connect({ hostname, port: Number(port), ...more }, socket);
  opened.push(connection);
  return connection;
}

async function channelOf(more) {
  return (await open(more)).createChannel();
}

const text = (message) => message.content.toString();

/** What a consumer gets, in order. */
class Inbox {
  constructor() {
    this.got = [];
    this.waiting = [];
  }

  static async of(channel, queue, options) {
    const inbox = new Inbox();
    await channel.consume(queue, (message) => inbox.came(message), options);
    return inbox;
  }

  came(message) {
    const waiting = this.waiting.shift();
    if (waiting) waiting(message);
    else this.got.push(message);
  }

  next() {
    return this.got.length ? Promise.resolve(this.got.shift()) : new Promise((tell) => this.waiting.push(tell));
  }

  async take(count) {
    const taken = [];
    while (taken.length < count) taken.push(await this.next());
    return taken;
  }
}

/** What an operation was refused with. */
async function refused(operation) {
  try {
    await operation();
  } catch (error) {
    return { code: error.code, text: error.message };
  }
  return null;
}

/** An operation that closes its channel, on one of its own; what is told of it, in order. */
async function refusedOn(connection, operation) {
  const channel = await connection.createChannel();
  const told = [];
  channel.on('error', (error) => told.push(`error ${error.code}`));
  channel.on('close', () => told.push('close'));
  return { ...(await refused(() => operation(channel))), told };
}

/** One message of a queue, as soon as there is one. */
async function fetched(channel, queue, options = { noAck: true }) {
  let found;
  do found = await channel.get(queue, options);
  while (!found);
  return found;
}

const scenarios = {
  async connecting(vhost) {
    const connection = await open({ vhost, heartbeat: 1 });
    const channel = await connection.createChannel();
    const queue = 'only-in-there';
    await channel.assertQueue(queue);
    const elsewhere = await refusedOn(await open(), (other) => other.checkQueue(queue));
    let beats = 0;
    await new Promise((enough) => {
      connection.connection.stream.on('data', (data) => {
        for (let at = data.indexOf(HEARTBEAT); at >= 0; at = data.indexOf(HEARTBEAT, at + 1)) beats += 1;
        if (beats >= 8) enough();
      });
    });
    return {
      heartbeat: connection.connection.heartbeat,
      product: connection.connection.serverProperties.product,
      still: (await channel.checkQueue(queue)).messageCount,
      elsewhere: elsewhere.code,
      nowhere: (await refused(() => open({ vhost: 'nowhere' }))).text,
      stranger: (await refused(() => open({ username: 'guest', password: 'wrong' }))).text,
      byUrl: (await (await amqplib.connect(`amqp://guest:guest@${hostname}:${port}/${vhost}`)).close()) === undefined,
    };
  },

  async confirms() {
    const channel = await (await open()).createConfirmChannel();
    await channel.assertQueue('confirmed');
    let confirmed = 0;
    for (let number = 0; number < 1000; number++) {
      channel.sendToQueue('confirmed', Buffer.from(`${number}`), { persistent: true }, (error) => {
        confirmed += error === null;
      });
    }
    await channel.waitForConfirms();
    await channel.assertQueue('small', { maxLength: 1, overflow: 'reject-publish' });
    const outcomes = [];
    for (const body of ['fits', 'does not']) {
      channel.sendToQueue('small', Buffer.from(body), {}, (error) => outcomes.push(error && error.message));
    }
    const nacked = await refused(() => channel.waitForConfirms());
    return {
      confirmed,
      depth: (await channel.checkQueue('confirmed')).messageCount,
      outcomes,
      nacked: nacked !== null,
    };
  },

  async answers() {
    const channel = await channelOf();
    await channel.assertQueue('answered');
    for (const body of ['a', 'b', 'c', 'd', 'e']) channel.sendToQueue('answered', Buffer.from(body));
    const inbox = await Inbox.of(channel, 'answered');
    const seen = [];
    const next = async () => {
      const message = await inbox.next();
      seen.push([text(message), message.fields.redelivered]);
      return message;
    };
    const [a, b, c, d] = [await next(), await next(), await next(), await next()];
    await next();
    channel.ack(a);
    channel.nack(b);
    channel.nack(await next(), false, false);
    channel.reject(c, true);
    channel.reject(await next(), false);
    channel.ack(d);
    channel.nackAll(true);
    await next();
    channel.ackAll();
    await channel.close();
    const other = await opened[0].createChannel();
    return { seen, left: (await other.checkQueue('answered')).messageCount };
  },

  async prefetch() {
    const channel = await channelOf();
    await channel.assertQueue('ahead');
    for (let number = 0; number < 6; number++) channel.sendToQueue('ahead', Buffer.from(`${number}`));
    await channel.prefetch(2);
    const inbox = await Inbox.of(channel, 'ahead');
    const [first, second] = await inbox.take(2);
    const held = (await channel.checkQueue('ahead')).messageCount; // behind it, more would have come
    const early = inbox.got.length;
    channel.ack(first);
    const third = text(await inbox.next());
    const before = (await channel.checkQueue('ahead')).messageCount;
    channel.ack(second, true);
    await inbox.next();
    return { held, early, third, before, got: inbox.got.length };
  },

  async returned() {
    const channel = await (await open()).createConfirmChannel();
    const order = [];
    const back = once(channel, 'return');
    channel.on('return', () => order.push('return'));
    const options = { mandatory: true, headers: { mine: 'yes' }, messageId: 'm-1' };
    channel.publish('amq.direct', 'nobody', Buffer.from('where to'), options, () => order.push('confirm'));
    const [message] = await back;
    await channel.waitForConfirms();
    const { replyCode, replyText, exchange, routingKey } = message.fields;
    const { headers, messageId } = message.properties;
    return { replyCode, replyText, exchange, routingKey, headers, messageId, body: text(message), order };
  },

  async rpc() {
    const server = await channelOf();
    await server.assertQueue('shouting', { exclusive: true });
    const asked = [];
    await server.consume(
      'shouting',
      (message) => {
        const { replyTo, correlationId } = message.properties;
        asked.push(replyTo);
        server.sendToQueue(replyTo, Buffer.from(text(message).toUpperCase()), { correlationId });
      },
      { noAck: true },
    );
    const client = await opened[0].createChannel();
    const replies = await Inbox.of(client, 'amq.rabbitmq.reply-to', { noAck: true });
    const words = ['one', 'two', 'three'];
    for (const correlationId of words) {
      client.sendToQueue('shouting', Buffer.from(correlationId), { replyTo: 'amq.rabbitmq.reply-to', correlationId });
    }
    const got = await replies.take(words.length);
    const without = await refusedOn(opened[0], async (channel) => {
      channel.sendToQueue('shouting', Buffer.from('x'), { replyTo: 'amq.rabbitmq.reply-to' });
      await channel.checkQueue('shouting');
    });
    return {
      answers: got.map((message) => [message.properties.correlationId, text(message)]),
      addresses: new Set(asked).size,
      address: asked[0].split('.').slice(0, 3).join('.'),
      without: without.code,
    };
  },

  async refusals() {
    const connection = await open();
    const channel = await connection.createChannel();
    const options = { messageTtl: 60000, maxPriority: 5, arguments: { 'x-single-active-consumer': true } };
    await channel.assertQueue('strict', options);
    const again = await channel.assertQueue('strict', options);
    return {
      again,
      otherTtl: await refusedOn(connection, (one) => one.assertQueue('strict', { ...options, messageTtl: 1000 })),
      noTtl: await refusedOn(connection, (one) => one.assertQueue('strict', { ...options, messageTtl: undefined })),
      notDurable: await refusedOn(connection, (one) => one.assertQueue('strict', { ...options, durable: false })),
      noQueue: await refusedOn(connection, (one) => one.checkQueue('missing')),
      noExchange: await refusedOn(connection, (one) => one.checkExchange('missing')),
      unbound: await refusedOn(connection, (one) => one.bindQueue('strict', 'missing', 'k')),
      after: (await channel.checkQueue('strict')).queue,
    };
  },

  async dying() {
    const channel = await channelOf();
    await channel.assertExchange('graves', 'topic');
    await channel.assertQueue('grave');
    await channel.bindQueue('grave', 'graves', '#');
    await channel.assertQueue('refusing', { deadLetterExchange: 'graves', deadLetterRoutingKey: 'was.refused' });
    await channel.assertQueue('brief', { messageTtl: 20, deadLetterExchange: 'graves' });
    await channel.assertQueue('short', { maxLength: 1, deadLetterExchange: 'graves' });
    const told = async () => {
      const dead = await fetched(channel, 'grave');
      const { headers } = dead.properties;
      const death = headers['x-death'][0];
      return {
        body: text(dead),
        key: dead.fields.routingKey,
        death: { ...death, time: death.time['!'] },
        first: [headers['x-first-death-queue'], headers['x-first-death-reason'], headers['x-first-death-exchange']],
        mine: headers.mine,
      };
    };
    channel.sendToQueue('refusing', Buffer.from('refused'), { headers: { mine: 1 } });
    channel.nack(await fetched(channel, 'refusing', {}), false, false);
    const refusedOne = await told();
    channel.sendToQueue('brief', Buffer.from('too late'));
    const late = await told();
    channel.sendToQueue('short', Buffer.from('old'), { expiration: '60000' });
    channel.sendToQueue('short', Buffer.from('new'));
    return { refused: refusedOne, late, pushed: await told() };
  },

  async delayed() {
    const channel = await channelOf();
    await channel.assertExchange('later', 'x-delayed-message', { arguments: { 'x-delayed-type': 'topic' } });
    await channel.assertQueue('due');
    await channel.bindQueue('due', 'later', 'job.*');
    const inbox = await Inbox.of(channel, 'due', { noAck: true });
    const started = Date.now();
    for (const delay of [300, 100, 0, 200]) {
      channel.publish('later', 'job.x', Buffer.from(`${delay}`), { headers: { 'x-delay': delay } });
    }
    const got = [];
    for (const message of await inbox.take(4)) got.push([text(message), message.properties.headers['x-delay']]);
    return { got, waited: Date.now() - started };
  },

  async headers() {
    const channel = await channelOf();
    await channel.assertQueue('labelled');
    const sent = {
      empty: '',
      words: 'Grüße, 世界 🚀',
      yes: true,
      no: false,
      nothing: null,
      byte: -128,
      short: 32767,
      int: -2147483648,
      long: Number.MAX_SAFE_INTEGER,
      negative: Number.MIN_SAFE_INTEGER,
      double: Math.PI,
      tiny: 5e-324,
      bytes: Buffer.from([0, 255, 206, 8]),
      list: [1, 'two', null, [3, { four: 4.5 }], Buffer.from('five'), []],
      table: { a: { b: { c: { d: [{ e: false }] } } }, none: {} },
      when: { '!': 'timestamp', value: 1700000000 },
      exact: { '!': 'decimal', value: { places: 2, digits: 31415 } },
    };
    // Types that come back as plain numbers.
    const typed = {
      float: { '!': 'float', value: 0.5 },
      uint8: { '!': 'uint8', value: 255 },
      uint16: { '!': 'uint16', value: 65535 },
      uint32: { '!': 'uint32', value: 4294967295 },
      int64: { '!': 'int64', value: -5 },
    };
    const properties = {
      contentType: 'application/json',
      contentEncoding: 'utf-8',
      deliveryMode: 2,
      priority: 9,
      correlationId: 'c',
      replyTo: 'r',
      expiration: '60000',
      messageId: 'm',
      timestamp: 1700000000,
      type: 't',
      userId: 'guest',
      appId: 'app',
    };
    channel.sendToQueue('labelled', Buffer.from('x'), { ...properties, headers: { ...sent, ...typed, left: undefined } });
    const message = await fetched(channel, 'labelled');
    const { headers: got, ...rest } = message.properties;
    const wrong = Object.keys(sent).filter((name) => !isDeepStrictEqual(got[name], sent[name]));
    return {
      wrong: wrong.map((name) => [name, String(sent[name]), String(got[name])]),
      typed: Object.keys(typed).map((name) => got[name]),
      left: 'left' in got,
      count: Object.keys(got).length,
      properties: Object.keys(properties).filter((name) => rest[name] !== properties[name]),
    };
  },

  async large() {
    const body = Buffer.alloc(5 * 1024 * 1024 + 7);
    for (let at = 0; at < body.length; at += 4) body.writeUInt32LE((at * 2654435761) >>> 0, Math.min(at, body.length - 4));
    const digest = (data) => createHash('sha256').update(data).digest('hex');
    const same = [];
    for (const frameMax of [131072, 4096]) {
      const connection = await open({ frameMax });
      const channel = await connection.createConfirmChannel();
      await channel.assertQueue('heavy');
      for (const size of [body.length, 0, frameMax - 8, frameMax - 7]) {
        channel.sendToQueue('heavy', body.subarray(0, size));
      }
      await channel.waitForConfirms();
      const inbox = await Inbox.of(channel, 'heavy', { noAck: true });
      for (const size of [body.length, 0, frameMax - 8, frameMax - 7]) {
        const { content } = await inbox.next();
        same.push(content.length === size && digest(content) === digest(body.subarray(0, size)));
      }
      await connection.close();
    }
    const channel = await channelOf();
    const tooLarge = await refusedOn(opened.at(-1), async (one) => {
      one.sendToQueue('heavy', Buffer.alloc(17 * 1024 * 1024));
      await one.checkQueue('heavy');
    });
    return { same, tooLarge, left: (await channel.checkQueue('heavy')).messageCount };
  },

  async exchanges() {
    const channel = await channelOf();
    await channel.assertExchange('front', 'topic');
    await channel.assertExchange('back', 'fanout', { internal: true });
    await channel.bindExchange('back', 'front', 'news.#');
    const queues = { all: '#', news: null, sport: 'news.sport.*', exact: 'news.sport.ball', one: '*.sport.*' };
    for (const [name, pattern] of Object.entries(queues)) {
      await channel.assertQueue(name);
      if (pattern === null) await channel.bindQueue(name, 'back', '');
      else await channel.bindQueue(name, 'front', pattern);
    }
    const keys = ['news', 'news.sport.ball', 'news.sport.net', 'x.sport.y', 'weather', 'news.a.b.c'];
    for (const key of keys) channel.publish('front', key, Buffer.from(key));
    const found = {};
    for (const name of Object.keys(queues)) {
      found[name] = [];
      for (let message; (message = await channel.get(name, { noAck: true })); ) found[name].push(text(message));
    }
    await channel.unbindExchange('back', 'front', 'news.#');
    channel.publish('front', 'news', Buffer.from('late'));
    found.late = (await channel.checkQueue('news')).messageCount;
    const hidden = await refusedOn(opened[0], async (one) => {
      one.publish('back', '', Buffer.from('x'));
      await one.checkExchange('back');
    });
    return { found, hidden: hidden.code };
  },

  async quorum() {
    const channel = await channelOf();
    const options = { arguments: { 'x-queue-type': 'quorum', 'x-delivery-limit': 2 }, deadLetterExchange: '' };
    await channel.assertQueue('poisoned');
    await channel.assertQueue('kept', { ...options, deadLetterRoutingKey: 'poisoned' });
    channel.sendToQueue('kept', Buffer.from('m'));
    const inbox = await Inbox.of(channel, 'kept');
    const seen = [];
    for (const answer of ['nack', 'nack', 'reject', 'reject', 'nack', 'reject']) {
      const message = await inbox.next();
      const { headers } = message.properties;
      seen.push([headers['x-acquired-count'] ?? null, headers['x-delivery-count'] ?? null]);
      if (answer === 'nack') channel.nack(message);
      else channel.reject(message, true);
    }
    const dead = await fetched(channel, 'poisoned');
    return { seen, reason: dead.properties.headers['x-death'][0].reason };
  },

  async cancelled() {
    const channel = await channelOf();
    await channel.assertQueue('doomed');
    const inbox = await Inbox.of(channel, 'doomed');
    const { messageCount } = await (await opened[0].createChannel()).deleteQueue('doomed');
    return { cancelled: await inbox.next(), messageCount, after: (await channel.assertQueue('')).queue.slice(0, 8) };
  },

  async closing() {
    const connection = await open();
    const errors = [];
    connection.on('error', (error) => errors.push(error.message));
    const channel = await connection.createChannel();
    const channelClosed = once(channel, 'close');
    const closed = once(connection, 'close');
    console.log('ready');
    const [reason] = await closed;
    await channelClosed;
    opened.length = 0;
    return { code: reason.code, text: reason.message, errors, late: (await refused(() => channel.checkQueue('q'))).text };
  },

  async recovering() {
    const setup = async (connection) => {
      const channel = await connection.createChannel();
      channel.on('error', () => {});
      await channel.assertQueue('survivor');
      await channel.consume('survivor', (message) => console.log(`got ${text(message)}`), { noAck: true });
    };
    const connection = await open({}, { recovery: { initialDelay: 50, maxDelay: 500, setup } });
    connection.on('error', () => {});
    const channel = await (await open()).createConfirmChannel();
    opened[1].on('error', () => {});
    channel.on('error', () => {});
    channel.sendToQueue('survivor', Buffer.from('before'));
    await channel.waitForConfirms();
    const lost = new Promise((tell) => opened[1].on('close', tell));
    console.log('ready');
    await lost;
    opened.pop();
    for (;;) {
      try {
        const after = await (await open()).createConfirmChannel();
        after.sendToQueue('survivor', Buffer.from('after'));
        await after.waitForConfirms();
        break;
      } catch {
        await new Promise((again) => setTimeout(again, 50));
      }
    }
    await new Promise((end) => process.stdin.once('end', end).resume());
    return { recovered: true };
  },
};

async function main() {
  const saw = await scenarios[scenario](...given);
  console.log(JSON.stringify(saw));
  for (const connection of opened) await connection.close().catch(() => {});
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
