use futures::TryStreamExt;
use pulsar::{producer, Consumer, Pulsar, SubType, TokioExecutor};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let topic = "persistent://public/default/orders-rust";
    let client: Pulsar<_> = Pulsar::builder("pulsar://127.0.0.1:6650", TokioExecutor).build().await?;

    let mut consumer: Consumer<String, _> = client
        .consumer()
        .with_topic(topic)
        .with_subscription("billing")
        .with_subscription_type(SubType::Shared)
        .build()
        .await?;
    let mut producer = client.producer().with_topic(topic).build().await?;

    for number in 1..=3 {
        let message = producer::Message {
            payload: format!("order {number}").into_bytes(),
            partition_key: Some("customer-7".into()),
            properties: [("shop".to_string(), "web".to_string())].into(),
            ..Default::default()
        };
        producer.send_non_blocking(message).await?.await?;
    }
    for _ in 0..3 {
        let message = consumer.try_next().await?.ok_or("the consumer was closed")?;
        let shop = &message.metadata().properties[0].value;
        println!("{} {} {}", message.deserialize()?, message.key().unwrap_or_default(), shop);
        consumer.ack(&message).await?;
    }
    Ok(())
}
