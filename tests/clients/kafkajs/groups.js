/** Consumers in groups, through the public API: what they hear waits until somebody asks for it. */
'use strict'

module.exports = ({ kafka, admin, shown }) => {
  const members = new Map()

  const calls = {
    async join({ id, group, topics, heartbeatMs, sessionMs }) {
      const consumer = kafka.consumer({
        groupId: group,
        sessionTimeout: sessionMs,
        rebalanceTimeout: sessionMs,
        heartbeatInterval: heartbeatMs,
        maxWaitTimeInMs: 50,
      })
      const member = { consumer, heard: [], assigned: [], wake() {} }
      members.set(id, member)
      consumer.on(consumer.events.GROUP_JOIN, ({ payload: { memberAssignment } }) => {
        // It goes on behind what was committed, so what nobody has asked for comes again.
        member.heard = []
        member.assigned = Object.entries(memberAssignment).flatMap(([topic, partitions]) =>
          partitions.map(partition => [topic, partition])
        )
      })
      consumer.on(consumer.events.REBALANCING, () => {
        member.assigned = []
      })
      await consumer.connect()
      await consumer.subscribe({ topics, fromBeginning: true })
      await consumer.run({
        autoCommit: false,
        eachMessage: async ({ topic, partition, message }) => {
          member.heard.push(shown(topic, partition, message))
          member.wake()
        },
      })
    },

    async heard({ id, waitMs }) {
      const member = members.get(id)
      if (!member.heard.length) {
        await new Promise(resolve => {
          const timer = setTimeout(resolve, waitMs)
          member.wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      return member.heard.splice(0)
    },

    async assigned({ id }) {
      return members.get(id).assigned
    },

    async commit({ id, offsets }) {
      const wanted = offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) }))
      await members.get(id).consumer.commitOffsets(wanted)
    },

    async seek({ id, topic, partition, offset }) {
      const member = members.get(id)
      member.heard = member.heard.filter(each => each.topic !== topic || each.partition !== partition)
      member.consumer.seek({ topic, partition, offset: String(offset) })
    },

    async committed({ group, topic, partition }) {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      return Number(partitions.find(each => each.partition === partition).offset)
    },

    async leave({ id }) {
      await members.get(id).consumer.disconnect()
      members.delete(id)
    },
  }

  return { calls, leaveAll: () => Promise.all([...members.keys()].map(id => calls.leave({ id }))) }
}
