/**
 * kafkajs behind lines of JSON: a request `{"call", "arguments"}` on stdin, a reply `{"result"}` or
 * `{"refused": {"code", "message"}}` on stdout. Bytes travel as base64, 64-bit numbers as numbers (tests stay small).
 *
 * Producing, managing topics and groups (`groups.js`) go through the public API. Its consumer always joins a group, so
 * reading with partitions chosen by hand uses the parts that the consumer itself is made of: the cluster, its brokers,
 * `Batch`.
 */
'use strict'

const readline = require('node:readline')
const { Kafka, Partitioners, CompressionTypes } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const Batch = require('kafkajs/src/consumer/batch')
const socketFactory = require('kafkajs/src/network/socketFactory')
const groupsOf = require('./groups')

const brokers = [process.argv[2]]
const READ_UNCOMMITTED = 0

const kafka = new Kafka({
  brokers,
  clientId: 'kafkajs',
  requestTimeout: 15000,
  retry: { initialRetryTime: 50, retries: 4 },
  logCreator: () => ({ label, log }) => process.stderr.write(`${label} ${log.message} ${log.error || ''}\n`),
})
const admin = kafka.admin()
const cluster = new Cluster({
  brokers,
  clientId: 'kafkajs',
  logger: kafka.logger(),
  socketFactory: socketFactory(),
  connectionTimeout: 1000,
  requestTimeout: 15000,
  enforceRequestTimeout: true,
  allowAutoTopicCreation: false,
  isolationLevel: READ_UNCOMMITTED,
  metadataMaxAge: 300000,
})
const producers = new Map()

const decode = text => (text === null ? null : Buffer.from(text, 'base64'))
const encode = bytes => (bytes === null || bytes === undefined ? null : bytes.toString('base64'))

async function producerFor(idempotent) {
  if (!producers.has(idempotent)) {
    const producer = kafka.producer({
      idempotent,
      createPartitioner: Partitioners.DefaultPartitioner,
      maxInFlightRequests: idempotent ? 1 : undefined,
    })
    await producer.connect()
    producers.set(idempotent, producer)
  }
  return producers.get(idempotent)
}

function headersIn(pairs) {
  const headers = {}
  for (const [name, value] of pairs) headers[name] = [...(headers[name] || []), decode(value)]
  return headers
}

function headersOut(headers) {
  return Object.entries(headers).flatMap(([name, values]) =>
    (Array.isArray(values) ? values : [values]).map(value => [name, encode(value)])
  )
}

function shown(topic, partition, message) {
  return {
    topic,
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: encode(message.key),
    value: encode(message.value),
    headers: headersOut(message.headers),
  }
}

const groups = groupsOf({ kafka, admin, shown })

async function leaderOf(topic, partition) {
  await cluster.addTargetTopic(topic)
  const [leader] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))
  return cluster.findBroker({ nodeId: leader })
}

const calls = {
  ...groups.calls,

  async send({ topic, messages, codec, acks, idempotent }) {
    const producer = await producerFor(idempotent)
    const parts = await producer.send({
      topic,
      acks,
      compression: codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None,
      messages: messages.map(({ key, value, headers, timestamp, partition }) => ({
        key: decode(key),
        value: decode(value),
        headers: headersIn(headers),
        ...(timestamp === null ? {} : { timestamp: String(timestamp) }),
        ...(partition === null ? {} : { partition }),
      })),
    })
    return parts.map(({ partition, baseOffset }) => [partition, Number(baseOffset)])
  },

  /** One fetch of all the places, which must have one leader: the tests know no other cluster. */
  async fetch({ places, waitMs, partitionBytes }) {
    for (const { topic } of places) await cluster.addTargetTopic(topic)
    const broker = await leaderOf(places[0].topic, places[0].partition)
    const { responses } = await broker.fetch({
      maxWaitTime: waitMs,
      minBytes: 1,
      maxBytes: 50 * 1024 * 1024,
      isolationLevel: READ_UNCOMMITTED,
      topics: places.map(({ topic, partition, offset }) => ({
        topic,
        partitions: [{ partition, fetchOffset: String(offset), maxBytes: partitionBytes }],
      })),
    })
    const offsets = new Map(places.map(({ topic, partition, offset }) => [`${topic}:${partition}`, offset]))
    return responses.flatMap(({ topicName, partitions }) =>
      partitions.flatMap(data => {
        const batch = new Batch(topicName, offsets.get(`${topicName}:${data.partition}`), data)
        return batch.messages.map(message => shown(topicName, data.partition, message))
      })
    )
  },

  async bounds({ topic, partition }) {
    const found = (await admin.fetchTopicOffsets(topic)).find(bounds => bounds.partition === partition)
    return [Number(found.low), Number(found.high)]
  },

  async offsetAt({ topic, partition, timestamp }) {
    const all = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
    return Number(all.find(found => found.partition === partition).offset)
  },

  async create({ topics }) {
    return admin.createTopics({ topics, waitForLeaders: false, timeout: 10000 })
  },

  async delete({ topics }) {
    await admin.deleteTopics({ topics, timeout: 10000 })
  },

  async grow({ topic, count }) {
    await admin.createPartitions({ topicPartitions: [{ topic, count }], timeout: 10000 })
  },

  async topics() {
    return admin.listTopics()
  },

  async describe({ topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.map(({ partitionId, leader, replicas, isr }) => [partitionId, leader, replicas, isr])
  },

  async settings({ topic }) {
    const { resources } = await admin.describeConfigs({ resources: [{ type: 2, name: topic }], includeSynonyms: false })
    return resources[0].configEntries.map(({ configName, configValue, configSource, isDefault }) => ({
      configName,
      configValue,
      configSource,
      isDefault,
    }))
  },

  async alter({ topic, settings }) {
    await admin.alterConfigs({ resources: [{ type: 2, name: topic, configEntries: settings }], validateOnly: false })
  },

  async deleteRecords({ topic, partition, before }) {
    // Without it the library does not know the leader: it asks for no metadata here.
    await admin.fetchTopicOffsets(topic)
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
  },

  async cluster() {
    const { brokers: nodes, controller, clusterId } = await admin.describeCluster()
    return { nodes: nodes.map(({ nodeId, host, port }) => [nodeId, `${host}:${port}`]), controller, clusterId }
  },
}

function within(error) {
  const [partition] = error.partitions || []
  return error.cause || error.originalError || (error.errors || [])[0] || (partition && partition.error)
}

/** Find the broker's error below those that the library wraps around it. */
function refusal(error) {
  for (let inner = error; inner; inner = within(inner)) {
    if (typeof inner.code === 'number') return { code: inner.code, message: String(inner.message) }
  }
  return { code: -1, message: String(error.stack) }
}

async function answer(line) {
  try {
    const request = JSON.parse(line)
    return { result: (await calls[request.call](request.arguments)) ?? null }
  } catch (error) {
    return { refused: refusal(error) }
  }
}

async function main() {
  await Promise.all([admin.connect(), cluster.connect()])
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(line))}\n`)
  }
  await groups.leaveAll()
  await Promise.all([admin.disconnect(), cluster.disconnect(), ...[...producers.values()].map(each => each.disconnect())])
}

main()
