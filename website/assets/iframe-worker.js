/* Browsers start no worker from a page on disk: there the search runs in a frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      document.body.appendChild(frame)
      this.frame = frame
      const inside = frame.contentWindow
      inside.answer = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      this.ready = new Promise(resolve => {
        inside.begun = resolve
      })
      inside.document.open()
      inside.document.write(
        "<!doctype html><html><body><script>" +
          "window.postMessage = data => window.answer(data);" +
          "window.importScripts = (...urls) => Promise.all(urls.map(url => new Promise((done, failed) => {" +
          "const s = document.createElement('script'); s.src = url; s.onload = done; s.onerror = failed;" +
          "document.body.appendChild(s) })));" +
          "<\/script><script src=\"" + url + "\" onload=\"begun()\"><\/script></body></html>"
      )
      inside.document.close()
    }

    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      )
    }

    terminate() {
      this.frame.remove()
    }
  }
}
