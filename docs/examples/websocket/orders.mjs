const address = "ws://127.0.0.1:8080/ws/v2";
const topic = "persistent/public/default/orders-websocket";
const consumer = new WebSocket(`${address}/consumer/${topic}/billing?subscriptionType=Shared`);
let count = 0;

consumer.onmessage = ({ data }) => {
  const { messageId, payload, key, properties } = JSON.parse(data);
  console.log(atob(payload), key, properties.shop);
  consumer.send(JSON.stringify({ messageId })); // acknowledges it
  if (++count === 3) consumer.close();
};

consumer.onopen = () => {
  const producer = new WebSocket(`${address}/producer/${topic}`);
  producer.onopen = () => {
    for (const number of [1, 2, 3]) {
      const payload = btoa(`order ${number}`);
      producer.send(JSON.stringify({ payload, key: "customer-7", properties: { shop: "web" } }));
    }
  };
  let receipts = 0;
  producer.onmessage = ({ data }) => {
    const { result, errorMsg } = JSON.parse(data);
    if (result !== "ok") throw new Error(errorMsg);
    if (++receipts === 3) producer.close();
  };
};
