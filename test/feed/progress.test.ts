/** S4: what is told of progress when much is said at once. */
import { describe, expect, it } from "vitest"
import { OwnerFollowers } from "../../src/feed/followers.ts"
import { LatestProgress, type NodeProgress } from "../../src/feed/progress.ts"

const news = (job_id: string, node: string, percent: number): NodeProgress => ({
  ...{ job_id, node, percent },
  owner: "ada",
  message: null,
  at: 1,
})

describe("progress", () => {
  it("S4 is the last report of each node, in the order of these reports", () => {
    const latest = new LatestProgress()
    for (let percent = 0; percent <= 100; percent++) latest.add(news("j", "list", percent))
    latest.add(news("j", "other", 10))
    latest.add(news("k", "list", 20))
    latest.add(news("j", "list", 30))
    expect(latest.take().map(({ job_id, node, percent }) => [job_id, node, percent])).toEqual([
      ["j", "other", 10],
      ["j", "list", 30],
      ["k", "list", 20],
    ])
    expect(latest.take()).toEqual([])
  })

  it("S4 goes to each follower in one write of whole events, which never fills what may wait for a client", () => {
    const watch = new OwnerFollowers()
    const [ofAll, ofJob, ofOther]: Buffer[][] = [[], [], []]
    const follower = (received: Buffer[]) => ({
      changed: () => {},
      progressed: (bytes: Buffer) => received.push(bytes),
    })
    watch.all.add(follower(ofAll!))
    watch.addJob("j", follower(ofJob!))
    watch.addJob("k", follower(ofOther!))
    const event = `${"é".repeat(500)}\n`
    watch.deliverProgress(
      new Map([
        ["j", new Array<string>(1000).fill(event)],
        ["k", [event, event]],
      ]),
    )
    const most = Math.floor((64 * 1024) / Buffer.byteLength(event))
    expect(ofAll!.map(String)).toEqual([event.repeat(most)])
    expect(ofJob!.map(String)).toEqual([event.repeat(most)])
    expect(ofOther!.map(String)).toEqual([event + event])
  })
})
