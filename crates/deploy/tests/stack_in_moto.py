"""Creates a stack of a template in moto's EC2, and says what became of it, as JSON.

moto takes a template with types that it does not know, and leaves them out without a word. What it has an EC2 call for is made by
that call then, with the template's properties; the rest is `ignored`.
"""

import json
import logging
import pathlib
import re
import sys
import warnings

import boto3
from moto import mock_aws

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


class Stack:
    """A stack's resources, and what references to them are."""

    def __init__(self, template, parameters):
        self.template = template
        self.ids = {}
        self.values = {"AWS::Region": "us-east-1", "AWS::AccountId": "123456789012", "AWS::Partition": "aws"}
        for name, parameter in template.get("Parameters", {}).items():
            self.values[name] = parameters.get(name, parameter.get("Default", ""))

    def resolve(self, value):
        """A property's value; None where it refers to what is not there."""
        if isinstance(value, dict):
            if set(value) == {"Ref"}:
                return self.ids.get(value["Ref"], self.values.get(value["Ref"]))
            if set(value) == {"Fn::GetAtt"}:
                name = value["Fn::GetAtt"]
                return self.ids.get(name[0] if isinstance(name, list) else name.split(".")[0])
            if set(value) == {"Fn::Sub"} and isinstance(value["Fn::Sub"], str):
                return re.sub(r"\$\{([^}]+)\}", lambda m: str(self.resolve({"Ref": m[1]})), value["Fn::Sub"])
            if set(value) == {"Fn::If"}:
                return self.resolve(value["Fn::If"][1 if self.condition(value["Fn::If"][0]) else 2])
            return {key: self.resolve(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.resolve(inner) for inner in value]
        return value

    def condition(self, name):
        def holds(test):
            (kind, of), = test.items()
            if kind == "Fn::Equals":
                one, other = map(self.resolve, of)
                return str(one) == str(other)
            if kind == "Fn::Not":
                return not holds(of[0])
            if kind == "Fn::And":
                return all(map(holds, of))
            if kind == "Fn::Or":
                return any(map(holds, of))
            if kind == "Condition":
                return self.condition(of)
            raise ValueError(kind)

        return holds(self.template["Conditions"][name])

    def wanted(self):
        """Resources whose condition holds, by type."""
        for name, resource in self.template["Resources"].items():
            if "Condition" not in resource or self.condition(resource["Condition"]):
                yield name, resource["Type"], resource.get("Properties", {})


def by_call(ec2, autoscaling):
    """Types that moto's CloudFormation leaves out and its EC2 has a call for: what makes one of its properties, and its identifier."""

    def attachment(p):
        made = ec2.create_transit_gateway_vpc_attachment(
            TransitGatewayId=p["TransitGatewayId"], VpcId=p["VpcId"], SubnetIds=p["SubnetIds"]
        )
        return made["TransitGatewayVpcAttachment"]["TransitGatewayAttachmentId"]

    def table(p):
        made = ec2.create_transit_gateway_route_table(TransitGatewayId=p["TransitGatewayId"])
        return made["TransitGatewayRouteTable"]["TransitGatewayRouteTableId"]

    def route(p):
        args = {"DestinationCidrBlock": p["DestinationCidrBlock"], "TransitGatewayRouteTableId": p["TransitGatewayRouteTableId"]}
        if p.get("Blackhole"):
            args["Blackhole"] = True
        else:
            args["TransitGatewayAttachmentId"] = p["TransitGatewayAttachmentId"]
        ec2.create_transit_gateway_route(**args)
        return p["DestinationCidrBlock"]

    def association(p):
        ec2.associate_transit_gateway_route_table(
            TransitGatewayRouteTableId=p["TransitGatewayRouteTableId"], TransitGatewayAttachmentId=p["TransitGatewayAttachmentId"]
        )
        return p["TransitGatewayAttachmentId"]

    def propagation(p):
        ec2.enable_transit_gateway_route_table_propagation(
            TransitGatewayRouteTableId=p["TransitGatewayRouteTableId"], TransitGatewayAttachmentId=p["TransitGatewayAttachmentId"]
        )
        return p["TransitGatewayAttachmentId"]

    def policy(p):
        args = {key: p[key] for key in ("AutoScalingGroupName", "PolicyType", "TargetTrackingConfiguration") if key in p}
        autoscaling.put_scaling_policy(PolicyName="policy", **args)
        made = autoscaling.describe_policies(AutoScalingGroupName=p["AutoScalingGroupName"])["ScalingPolicies"]
        return made[-1]["PolicyARN"]

    return {
        "AWS::EC2::TransitGatewayAttachment": attachment,
        "AWS::EC2::TransitGatewayRouteTable": table,
        "AWS::EC2::TransitGatewayRoute": route,
        "AWS::EC2::TransitGatewayRouteTableAssociation": association,
        "AWS::EC2::TransitGatewayRouteTablePropagation": propagation,
        "AWS::AutoScaling::ScalingPolicy": policy,
    }


def with_ports(template):
    """Of a rule for all protocols EC2 wants no ports; moto does."""
    for resource in template["Resources"].values():
        for rules in ("SecurityGroupIngress", "SecurityGroupEgress"):
            for rule in resource.get("Properties", {}).get(rules, []):
                if str(rule.get("IpProtocol")) == "-1":
                    rule.update(FromPort=-1, ToPort=-1)


def stacks_below(template, path):
    """Puts the templates of stacks below into a bucket, as `aws cloudformation package` does."""
    s3 = boto3.client("s3", "us-east-1")
    s3.create_bucket(Bucket="templates")
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::CloudFormation::Stack":
            name = resource["Properties"]["TemplateURL"].removeprefix("./")
            below = (pathlib.Path(path).parent / name).read_text()
            s3.put_object(Bucket="templates", Key=name, Body=below)
            resource["Properties"]["TemplateURL"] = f"https://templates.s3.amazonaws.com/{name}"


@mock_aws
def main(path):
    from cfnlint.decode import cfn_yaml

    template = json.loads(json.dumps(cfn_yaml.load(path)))
    ec2, cloud = boto3.client("ec2", "us-east-1"), boto3.client("cloudformation", "us-east-1")
    autoscaling, ssm = boto3.client("autoscaling", "us-east-1"), boto3.client("ssm", "us-east-1")
    stacks_below(template, path)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    parameters = {}
    for name, parameter in template.get("Parameters", {}).items():
        if "Default" not in parameter:
            kind = parameter["Type"]
            parameters[name] = image if "Image" in kind else {"Number": "1"}.get(kind, "value")
        elif parameter["Type"].startswith("AWS::SSM::Parameter::Value"):
            ssm.put_parameter(Name=f"/moto/{name}", Value=image, Type="String", Overwrite=True)
            parameters[name] = f"/moto/{name}"
    with_ports(template)
    body = json.dumps(template)
    out = {"status": None, "made": {}, "by_call": {}, "ignored": [], "refused": []}
    try:
        cloud.create_stack(
            StackName="weir",
            TemplateBody=body,
            Capabilities=["CAPABILITY_NAMED_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        )
        out["status"] = cloud.describe_stacks(StackName="weir")["Stacks"][0]["StackStatus"]
    except Exception as error:  # whatever it is, the caller prints it
        out["refused"].append(f"stack: {error}")
        print(json.dumps(out))
        return
    stack = Stack(template, parameters)
    stack.values["AWS::StackName"] = "weir"
    for resource in cloud.describe_stack_resources(StackName="weir")["StackResources"]:
        if resource.get("PhysicalResourceId"):
            stack.ids[resource["LogicalResourceId"]] = resource["PhysicalResourceId"]
    left = []
    for name, kind, properties in stack.wanted():
        if name in stack.ids:
            out["made"][kind] = out["made"].get(kind, 0) + 1
        else:
            left.append((name, kind, properties))
    calls = by_call(ec2, autoscaling)
    # In the order in which one refers to another.
    order = list(calls)
    left.sort(key=lambda one: order.index(one[1]) if one[1] in calls else len(order))
    for name, kind, properties in left:
        if kind not in calls:
            out["ignored"].append(kind)
            continue
        try:
            stack.ids[name] = calls[kind](stack.resolve(properties))
            out["by_call"][kind] = out["by_call"].get(kind, 0) + 1
        except Exception as error:  # named, and judged by the caller
            out["refused"].append(f"{name}: {kind}: {error}")
    out["ignored"] = sorted(set(out["ignored"]))
    print(json.dumps(out))


main(sys.argv[1])
