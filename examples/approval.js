// A node that waits for a person: no worker is held, restarts do not matter, and silence has a meaning.
// Run it: node examples/approval.js
import { openUmbra } from "umbra"

const umbra = await openUmbra("memory:")

const expense = {
  name: "expense",
  nodes: [
    {
      id: "approval",
      handler: "wait_for_signal",
      config: {
        signal: "approval",
        timeout_seconds: "{{ input.patience }}",
        default: { ok: false, by: "nobody" },
      },
    },
    { id: "pay", handler: "transform", config: { value: "{{ input.amount }}" }, when: "{{ approval.ok }}" },
  ],
  output: { approved_by: "{{ approval.by }}", paid: "{{ 0 if pay.skipped is defined else pay }}" },
}

// Over HTTP: POST /jobs/{id}/signals/approval with the same JSON as body.
const lunch = await umbra.submit(expense, { amount: 12, patience: 3600 })
await lunch.signal("approval", { ok: true, by: "Ada" })
console.log((await lunch.wait()).output) // { approved_by: 'Ada', paid: 12 }

const yacht = await umbra.submit(expense, { amount: 90_000, patience: 0.2 })
console.log((await yacht.wait()).output) // { approved_by: 'nobody', paid: 0 }
await umbra.close()
