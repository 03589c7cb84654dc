//! The attachment of a Direct Connect gateway at the transit gateway: CloudFormation makes it with the association, and
//! does not tell its identifier. A function looks it up, so that it gets a route table like any other attachment.

use super::{Resources, attribute, reference, sub};
use crate::{list, map};

/// Waits until the attachment is available, and answers with its identifier.
const LOOK_UP: &str = "\
import boto3, cfnresponse, time
def handler(event, context):
    old = event.get('PhysicalResourceId', 'none')
    if event['RequestType'] == 'Delete':
        return cfnresponse.send(event, context, cfnresponse.SUCCESS, {}, old)
    wanted = event['ResourceProperties']
    filters = [{'Name': name, 'Values': [value]} for name, value in (
        ('transit-gateway-id', wanted['TransitGatewayId']), ('resource-type', 'direct-connect-gateway'),
        ('resource-id', wanted['DirectConnectGatewayId']), ('state', 'available'))]
    try:
        while context.get_remaining_time_in_millis() > 30000:
            found = boto3.client('ec2').describe_transit_gateway_attachments(Filters=filters)['TransitGatewayAttachments']
            if found:
                name = found[0]['TransitGatewayAttachmentId']
                return cfnresponse.send(event, context, cfnresponse.SUCCESS, {'AttachmentId': name}, name)
            time.sleep(15)
        raise TimeoutError('no attachment became available')
    except Exception as error:
        cfnresponse.send(event, context, cfnresponse.FAILED, {}, old, reason=str(error))
";

const BY: &str = "ByDirectConnect";

/// The attachment's association with the route table of the three networks, and its routes in it.
pub fn attachment(resources: &mut Resources) {
    let may = |actions| map! { "Effect" => "Allow", "Action" => actions, "Resource" => "*" };
    let role = map! {
        "AssumeRolePolicyDocument" => map! {
            "Version" => "2012-10-17",
            "Statement" => list![map! {
                "Effect" => "Allow", "Action" => "sts:AssumeRole", "Principal" => map! { "Service" => "lambda.amazonaws.com" },
            }],
        },
        "ManagedPolicyArns" => list![sub("arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole")],
        "Policies" => list![map! {
            "PolicyName" => "look-up",
            "PolicyDocument" => map! {
                "Version" => "2012-10-17",
                "Statement" => list![may(list!["ec2:DescribeTransitGatewayAttachments"])],
            },
        }],
    };
    resources.add_if(BY, "LookUpRole", "AWS::IAM::Role", role);
    let function = map! {
        "Runtime" => "python3.12",
        "Handler" => "index.handler",
        "Timeout" => 900_i64,
        "Role" => attribute("LookUpRole", "Arn"),
        "Code" => map! { "ZipFile" => LOOK_UP },
    };
    resources.add_if(BY, "LookUp", "AWS::Lambda::Function", function);
    let wanted = map! {
        "ServiceToken" => attribute("LookUp", "Arn"),
        "TransitGatewayId" => reference("TransitGateway"),
        "DirectConnectGatewayId" => reference("DirectConnectGatewayId"),
    };
    resources.add_if(BY, "DirectConnectAttachment", "Custom::DirectConnectAttachment", wanted);
    resources.after("DirectConnect");
    let both = map! {
        "TransitGatewayRouteTableId" => reference("TransitRoutes"),
        "TransitGatewayAttachmentId" => attribute("DirectConnectAttachment", "AttachmentId"),
    };
    resources.add_if(BY, "DirectConnectAsks", "AWS::EC2::TransitGatewayRouteTableAssociation", both.clone());
    resources.add_if(BY, "DirectConnectKnown", "AWS::EC2::TransitGatewayRouteTablePropagation", both);
}
