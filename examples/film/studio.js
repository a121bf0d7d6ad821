// A studio that renders scenes: the fake provider of umbra/testing, on 127.0.0.1. It is as unreliable as real ones are.
import { startFakeProvider } from "umbra/testing"

/** What goes wrong with which scene. Everything else is rendered in three frames, and a webhook tells the end. */
const troubles = {
  // The webhook gets lost: a poll finds the clip.
  chase: clip => [{ do: "complete", output: clip }],
  // Somebody who does not know the secret says that it is done.
  storm: clip => [
    { do: "webhook", secret: "a guess", says: { status: "done", output: { clip: "forged.mp4" } } },
    ...ending(clip),
  ],
  // The result is told twice.
  harbour: clip => [...ending(clip), { do: "webhook" }],
}

const ending = clip => [{ do: "complete", output: clip }, { do: "webhook" }]

export function startStudio(secret) {
  return startFakeProvider({ secret, limit: 2, script: ({ request, key }) => scriptOf(request, key) })
}

function scriptOf({ scene, seconds }, key) {
  const frames = [1, 2, 3].flatMap(frame => [
    { do: "show", progress: frame * 30, preview: { frame: `${scene}-${frame}.png` } },
    { do: "webhook" },
    { do: "wait", ms: 100 },
  ])
  // The lights go out, once: the next operation of the same node has a key of its own.
  if (scene === "kiss" && !key.endsWith("/3/1"))
    return { steps: [...frames.slice(0, 3), { do: "fail", error: "the lights went out" }, { do: "webhook" }] }
  const end = troubles[scene] ?? ending
  return {
    // The first answer is lost although the work has begun: it is submitted again, under the same key.
    submit: scene === "chase" ? [{ status: 502, afterwards: true }] : [],
    steps: [...frames, ...end({ clip: `${scene}.mp4`, seconds })],
  }
}
