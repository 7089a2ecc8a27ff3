import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** A modal dialog of the browser: it keeps the focus inside and closes on Escape. */
export function Dialog(props: { title: string; close?: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={props.title}
      onCancel={(e) => {
        e.preventDefault();
        props.close?.();
      }}
      onClick={(e) => e.target === dialog.current && props.close?.()}
    >
      <div class="dialog">
        <div class="dialog-head">
          <h2>{props.title}</h2>
          {props.close && (
            <button type="button" class="plain" aria-label="Close" onClick={props.close}>
              ✕
            </button>
          )}
        </div>
        {props.children}
      </div>
    </dialog>
  );
}

export function KeyDialog(props: { wrong: boolean; done: (key: string) => void }) {
  const [value, setValue] = useState("");
  return (
    <Dialog title="This server wants a key">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          props.done(value.trim());
        }}
      >
        {props.wrong && <p class="error">The key that was given is not accepted.</p>}
        <label>
          API key
          <input type="password" autocomplete="off" required value={value} onInput={(e) => setValue(e.currentTarget.value)} />
        </label>
        <p class="hint">It is kept in this browser and sent to this server alone.</p>
        <button type="submit">Use it</button>
      </form>
    </Dialog>
  );
}

export function Shortcuts(props: { close: () => void }) {
  const rows = [
    ["Enter", "send"],
    ["Shift + Enter", "a new line"],
    ["Escape", "stop the answer, close a dialog"],
    ["Ctrl + Shift + O", "new chat"],
    ["Ctrl + Shift + S", "settings"],
    ["/", "to the message"],
    ["?", "these keys"],
  ];
  return (
    <Dialog title="Keys" close={props.close}>
      <table class="keys">
        <tbody>
          {rows.map(([keys, what]) => (
            <tr>
              <th scope="row">
                <kbd>{keys}</kbd>
              </th>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
